"""An agent in this process over real files and a real index, scanned when a test asks, and random edits."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Mapping
from pathlib import Path
from random import Random
from typing import TypeVar

from sidecar.domain.authority import Authority, CallerContext, Operator
from sidecar.domain.memory import Hit, Page, SearchRequest
from sidecar.runtime.agent import AgentRuntime
from sidecar.service.audit import Audit
from sidecar.service.hits import RecordedOrigin, none_recorded
from sidecar.service.offload import Offload
from sidecar.service.preparing import Preparers
from sidecar.service.workspace import WorkspaceHandle
from sidecar.settings.model import AgentSettings, EmbeddingSettings, SessionsSettings, WatchSettings
from sidecar.text.lines import decode, split_lines

T = TypeVar("T")
OPERATOR = Operator(scopes=("operator.read",))


def cases(in_ci: int) -> int:
    """How many cases a property runs: `PROPERTY_CASES` where it is set, else what suits CI."""
    return int(os.environ.get("PROPERTY_CASES", in_ci))


class Agent:
    """One agent and its workspace."""

    def __init__(self, runtime: AgentRuntime, workspace: Path) -> None:
        self.runtime = runtime
        self.workspace = workspace

    async def handle(self, authority: Authority = OPERATOR, identity: str = "gateway") -> WorkspaceHandle:
        """A handle opened anew."""
        context = CallerContext(authority=authority, assert_current=lambda: None, identity=identity)
        opened = await self.runtime.provider.open("main", context, "default")
        assert isinstance(opened, WorkspaceHandle)
        return opened

    async def page(self, query: str, most: int, cursor: str | None = None, **asked: object) -> Page:
        """One page by a handle of its own."""
        request = SearchRequest(query=query, max_results=most, cursor=cursor, **asked)  # type: ignore[arg-type]
        return await (await self.handle()).search(request)

    async def scan(self) -> None:
        """Bring the index to what is on disk."""
        await self.runtime.indexer.full_scan()

    def lines(self, path: str) -> list[str]:
        """The lines of a file now, none when it is gone."""
        file = self.workspace / path
        return split_lines(decode(file.read_bytes()).text) if file.is_file() else []

    def named(self, hit: Hit) -> list[str]:
        """The raw lines that a hit's reference names now."""
        start, end = bounds(hit.reference.fragment)
        return self.lines(hit.path)[start - 1 : end]

    def write(self, files: Mapping[str, str]) -> None:
        """Replace the whole workspace."""
        for child in self.workspace.iterdir():
            shutil.rmtree(child) if child.is_dir() else child.unlink()
        for name, text in files.items():
            path = self.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")


def bounds(fragment: str | None) -> tuple[int, int]:
    """First and last line of a fragment."""
    assert fragment is not None
    first, last = fragment.split("@")[0].split("-")
    return int(first[1:]), int(last[1:])


class World:
    """An event loop with an agent, for synchronous properties that run many cases in one index."""

    def __init__(self, directory: Path, recorded_origin: RecordedOrigin = none_recorded) -> None:
        self.directory = directory
        self.loop = asyncio.new_event_loop()
        self.offload = Offload(threads=2)
        workspace = directory / "workspace"
        workspace.mkdir()
        runtime = self.run(self._open(workspace, recorded_origin))
        self.agent = Agent(runtime, workspace)

    async def _open(self, workspace: Path, recorded_origin: RecordedOrigin) -> AgentRuntime:
        return await AgentRuntime.open(
            AgentSettings(
                id="main", workspace=workspace, sessions=SessionsSettings(directory=self.directory / "none")
            ),
            directory=self.directory / "state",
            watch=WatchSettings(mode="polling"),
            embeddings=EmbeddingSettings(provider="none"),
            embedder=None,
            offload=self.offload,
            preparers=Preparers(0),
            audit=Audit(),
            recorded_origin=recorded_origin,
        )

    def run(self, work: Awaitable[T]) -> T:
        """The result of a coroutine."""
        return self.loop.run_until_complete(work)

    def close(self) -> None:
        """End everything."""
        self.run(self.agent.runtime.close())
        self.offload.close()
        self.loop.close()


WORDS = ("valve", "boiler", "permit", "garden", "invoice", "lantern")
TAGS = ("", "", "", " <!-- project: a/b -->", " <!-- project: c -->", " <!-- project: ; -->")


def random_line(random: Random) -> str:
    """A line of a note: bullets, prose, headings, blank lines, some long, some tagged, few unique."""
    kind = random.random()
    if kind < 0.15:
        return random.choice(["", "", "  ", "# Head", "## Sub", "---", "\t"])
    words = " ".join(random.choices(WORDS, k=random.randint(1, 6)))
    if kind < 0.2:
        words += f" {words}" * random.randint(20, 60)
    if kind < 0.8:
        words += f" n{random.randint(0, 40)}"
    mark = random.choice(["- ", "- ", "", "  - ", "  ", "1. ", "| "])
    return mark + words + random.choice(TAGS) + random.choice(["", "", "", "  ", "\r", " é", " 😀"])


def random_files(random: Random) -> dict[str, str]:
    """A small workspace."""
    names = ["MEMORY.md", "USER.md", "memory/2026-01-02.md", "memory/a.md", "memory/b/c.md"]
    return {name: random_text(random) for name in random.sample(names, random.randint(2, 5))}


def random_text(random: Random) -> str:
    """A file; the last line end may be missing."""
    lines = [random_line(random) for _ in range(random.randint(1, 30))]
    return "\n".join(lines) + random.choice(["\n", ""])


def edit(random: Random, workspace: Path) -> None:
    """One random change: insert, delete, move, duplicate or rewrite lines, or all of that with a file."""
    paths = sorted(path for path in workspace.rglob("*.md") if path.is_file())
    kind = random.choice(["insert", "delete", "move", "duplicate", "rewrite", "touch", "file"])
    if kind == "file" or not paths:
        _edit_file(random, workspace, paths)
        return
    path = random.choice(paths)
    lines = path.read_bytes().decode().split("\n")
    start = random.randrange(len(lines))
    end = min(len(lines), start + random.randint(1, 4))
    part = lines[start:end]
    if kind in ("delete", "move"):
        del lines[start:end]
    elif kind == "rewrite":
        lines[start:end] = [random.choice([line.upper(), line + " x", random_line(random)]) for line in part]
    if kind in ("insert", "move", "duplicate"):
        new = part if kind != "insert" else [random_line(random) for _ in range(random.randint(1, 4))]
        at = random.randint(0, len(lines))
        lines[at:at] = new
    path.write_bytes("\n".join(lines).encode())


def _edit_file(random: Random, workspace: Path, paths: list[Path]) -> None:
    kind = random.choice(["new", "delete", "copy", "replace", "rename"])
    other = workspace / "memory" / f"{random.choice('abcd')}.md"
    other.parent.mkdir(exist_ok=True)
    if kind == "new" or not paths:
        other.write_bytes(random_text(random).encode())
        return
    path = random.choice(paths)
    if kind == "delete":
        path.unlink()
    elif kind == "copy":
        other.write_bytes(path.read_bytes())
    elif kind == "rename":
        path.rename(other)
    else:
        path.write_bytes(random_text(random).encode())
