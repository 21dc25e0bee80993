"""The workspace under chaos and what is known of it: which text stands where, and when what was gone.

Every line of a note has a word of its own. From the words in an answer follows which text was served, and
whether it still stood somewhere when the question was asked.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

WORD = re.compile(r"zk[0-9a-f]{12}")
MOST_NOTES = 120
MOST_GONE = 4000
_FILLER = ("amber", "boiler", "ledger", "harbour", "window", "kettle", "meadow", "signal", "garden", "copper")
_ODD = (
    "name\nwith a line end.md", "🦊 fox.md", "é" * 120 + ".md", "x" * 252 + ".md", " leading.md", "a'b\"c.md",
    "Twin.md", "twin.md", "名前.md", "#hash?.md", "bad\udcff.md", "-dash.md", "percent%2e.md",
)  # fmt: skip


class World:
    """The notes by path below the workspace; every change goes through here. One event loop."""

    def __init__(self, root: Path, outside: Path, random: Random) -> None:
        self.root = root
        self.random = random
        self.notes: dict[str, str] = {}
        self.lines: dict[str, set[str]] = {}
        """Every line that a word ever stood in."""
        self.gone: dict[str, float] = {}
        """When the last text with a word had left the disk."""
        self.touched: dict[str, float] = {}
        self.last = ""
        self._outside = outside / "secret.md"
        self._outside.write_text("- zkoutside text that is nobody's memory zk00000000dead\n")
        (root / "memory").mkdir(parents=True, exist_ok=True)

    @property
    def living(self) -> set[str]:
        """The words that stand on the disk now."""
        return {word for text in self.notes.values() for word in WORD.findall(text)}

    def act(self) -> None:
        """One change as people and tools make them."""
        acts = [self._create, self._create, self._replace, self._replace, self._overwrite, self._append]
        acts += [self._delete, self._move, self._burst] if len(self.notes) > 10 else [self._create]
        self._do(self.random.choice(acts))

    def harm(self) -> None:
        """One fault: times put back, folders swapped, modes, links, cut files, odd names and content."""
        acts = [self._put_time_back, self._put_time_back, self._swap_folders, self._links, self._cut]
        acts += [self._odd_name, self._odd_content, self._odd_kind, self._vanish_and_return, self._lock_out]
        self._do(self.random.choice(acts))

    def _do(self, act: Callable[[], None]) -> None:
        self.last = act.__name__.strip("_")
        act()

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, str]]:
        """Change the disk and the yielded notes alike; what is in none of them afterwards is gone."""
        before, held = self.living, dict(self.notes)
        now = dict(self.notes)
        for text in now.values():
            self._learn(text)
        try:
            yield now
        finally:
            for text in now.values():
                self._learn(text)
            self.notes = now
            at = time.monotonic()
            for path in held.keys() | now.keys():
                if held.get(path) != now.get(path):
                    self.touched[path] = at
            for word in before - self.living:
                self.gone[word] = at
            for word in list(self.gone)[: max(0, len(self.gone) - MOST_GONE)]:
                del self.gone[word]
                self.lines.pop(word, None)

    def _learn(self, text: str) -> None:
        for line in text.split("\n"):
            for word in WORD.findall(line):
                self.lines.setdefault(word, set()).add(line)

    def _text(self, lines: int | None = None) -> str:
        made = []
        for _ in range(lines or self.random.randrange(1, 8)):
            filler = " ".join(self.random.choices(_FILLER, k=5))
            made.append(f"- zk{secrets.token_hex(6)} {filler}")
        text = "\n".join(made) + "\n"
        self._learn(text)
        return text

    def _new_path(self) -> str:
        folder = self.random.choice(("memory", "memory/a", "memory/b", "memory/a/deep"))
        return f"{folder}/n{secrets.token_hex(3)}.md"

    def _some(self) -> str | None:
        return self.random.choice(sorted(self.notes)) if self.notes else None

    def _full(self, path: str) -> Path:
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        return full

    def _create(self) -> None:
        if len(self.notes) >= MOST_NOTES:
            self._delete()
            return
        path = self._new_path()
        with self._changing() as notes:
            notes[path] = self._text()
            self._full(path).write_text(notes[path])

    def _replace(self) -> None:
        """As most editors save: a new file takes the place of the old one."""
        if path := self._some():
            with self._changing() as notes:
                notes[path] = self._text()
                beside = self._full(path).parent / f".{secrets.token_hex(4)}.tmp"
                beside.write_text(notes[path])
                beside.replace(self.root / path)

    def _overwrite(self) -> None:
        if path := self._some():
            with self._changing() as notes:
                notes[path] = self._text()
                self._full(path).write_text(notes[path])

    def _append(self) -> None:
        if (path := self._some()) and len(self.notes[path]) < 4000:
            with self._changing() as notes:
                start = notes[path] if notes[path].endswith("\n") or not notes[path] else notes[path] + "\n"
                notes[path] = start + self._text(1)
                self._full(path).write_text(notes[path])

    def _delete(self) -> None:
        if path := self._some():
            with self._changing() as notes:
                del notes[path]
                (self.root / path).unlink()

    def _move(self) -> None:
        if path := self._some():
            target = self._new_path()
            with self._changing() as notes:
                notes[target] = notes.pop(path)
                (self.root / path).rename(self._full(target))

    def _burst(self) -> None:
        for _ in range(20):
            self.random.choice((self._replace, self._create, self._delete))()

    def _put_time_back(self) -> None:
        """Other text of the same size under the same times."""
        if path := self._some():
            full = self.root / path
            status = full.stat()
            with self._changing() as notes:
                old = notes[path]
                notes[path] = WORD.sub(lambda _: f"zk{secrets.token_hex(6)}", old)
                self._learn(notes[path])
                full.write_text(notes[path])
                os.utime(full, ns=(status.st_atime_ns, status.st_mtime_ns))

    def _swap_folders(self) -> None:
        one, other = self.root / "memory/a", self.root / "memory/b"
        for folder in (one, other):
            folder.mkdir(exist_ok=True)
        with self._changing() as notes:
            aside = self.root / "swapping"
            one.rename(aside)
            other.rename(one)
            aside.rename(other)
            for path in list(notes):
                if path.startswith(("memory/a/", "memory/b/")):
                    del notes[path]
            for path, text in self.notes.items():
                if path.startswith("memory/a/"):
                    notes["memory/b/" + path.removeprefix("memory/a/")] = text
                elif path.startswith("memory/b/"):
                    notes["memory/a/" + path.removeprefix("memory/b/")] = text

    def _vanish_and_return(self) -> None:
        """A folder that is away for a moment, as when it is mounted anew."""
        folder = self.root / "memory"
        aside = self.root / "away"
        with self._changing():
            folder.rename(aside)
            aside.rename(folder)
            for path in self.notes:
                self.touched[path] = time.monotonic()

    def _links(self) -> None:
        link = self.root / "memory" / f"link{self.random.randrange(6)}.md"
        link.unlink(missing_ok=True)
        some = self._some()
        targets = [self._outside, self._outside.parent, link, Path("nowhere.md"), self.root]
        link.symlink_to(self.random.choice([*targets, self.root / some] if some else targets))

    def _cut(self) -> None:
        """A file cut somewhere, as by a full disk."""
        if path := self._some():
            with self._changing() as notes:
                text = notes[path]
                notes[path] = text[: self.random.randrange(len(text) + 1)]
                self._learn(notes[path])
                self._full(path).write_text(notes[path])

    def _odd_name(self) -> None:
        name = self.random.choice(_ODD)
        with self._changing() as notes, contextlib.suppress(OSError):
            text = self._text()
            self._full(f"memory/odd/{name}").write_text(text)
            notes[f"memory/odd/{name}"] = text

    def _odd_content(self) -> None:
        """Text, and after it bytes that are none."""
        path = "memory/odd/content.md"
        junk = self.random.choice((b"\xff\xfe\xfa", b"\0\0\0", b"\xf0\x9f", b"a" * 300_000))
        with self._changing() as notes:
            notes[path] = self._text()
            self._full(path).write_bytes(notes[path].encode() + b"\n" + junk)

    def _odd_kind(self) -> None:
        pipe = self.root / "memory" / "pipe.md"
        with contextlib.suppress(FileExistsError):
            os.mkfifo(pipe)

    def _lock_out(self) -> None:
        """A note that cannot be read for a moment; root would not notice."""
        if (path := self._some()) and os.geteuid() != 0:
            full = self.root / path
            with self._changing():
                full.chmod(0)
                self.touched[path] = time.monotonic()
                full.chmod(0o644)
