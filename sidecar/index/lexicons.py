"""The lexicons of all sources: numbered directories, of which the catalog says which one is in use.

A lexicon is only ever built beside the one in use and takes over by one change of its number in the catalog;
directories that no number names are removed at the next start.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from sidecar.domain.errors import StoreDamaged
from sidecar.domain.memory import Source
from sidecar.index.documents import LexicalLayout
from sidecar.index.lexicon import Lexicon, LexiconSnapshot
from sidecar.index.packing import Contents
from sidecar.index.private_files import private_directory, remove_tree

SourceContents = Sequence[tuple[int, Contents]]


class Lexicons:
    """The lexicons in use. Every method blocks and is for one thread at a time."""

    def __init__(self, directory: Path, layout: LexicalLayout, store: str) -> None:
        self._directory = private_directory(directory)
        self._layout = layout
        self._store = store
        self._open: dict[Source, Lexicon] = {}
        self._numbers: dict[Source, int] = {}

    @property
    def numbers(self) -> Mapping[Source, int]:
        """Which directory of each source is in use."""
        return self._numbers

    def open(self, source: Source, number: int) -> None:
        """Use a directory that exists; raises `StoreDamaged` when it cannot be used."""
        self._numbers[source] = number
        path = self._path(source, number)
        if not path.is_dir():
            raise StoreDamaged("a lexical index is missing")
        self._open[source] = Lexicon(path, self._layout, self._store)

    def build(self, source: Source) -> Lexicon:
        """An empty lexicon beside the one in use, for `take_over`."""
        path = self._path(source, self.next_number(source))
        remove_tree(path)
        return Lexicon(path, self._layout, self._store)

    def next_number(self, source: Source) -> int:
        """The number of the directory that `build` uses."""
        return self._numbers.get(source, 0) + 1

    def take_over(self, source: Source, lexicon: Lexicon) -> None:
        """Use what `build` gave from now on; the directory before it is for `remove_unused`."""
        previous = self._open.pop(source, None)
        if previous is not None:
            previous.close_writer()
        self._numbers[source] = self.next_number(source)
        self._open[source] = lexicon

    def has(self, source: Source) -> bool:
        """Whether the source has a usable lexicon."""
        return source in self._open

    def get(self, source: Source) -> Lexicon:
        """The lexicon in use."""
        return self._open[source]

    def commit(
        self, removed: Mapping[Source, Collection[int]], added: Mapping[Source, SourceContents]
    ) -> None:
        """Forget and add documents durably; sources that nothing is said about are not touched."""
        for source in self._open:
            if removed.get(source) or added.get(source):
                self._open[source].stage(removed.get(source, ()), added.get(source, ()))
                self._open[source].commit()

    def snapshots(self) -> dict[Source, LexiconSnapshot]:
        """What the last commits hold."""
        return {source: lexicon.snapshot() for source, lexicon in self._open.items()}

    def unclean(self) -> list[Source]:
        """The sources whose files still hold something of forgotten documents."""
        return [source for source, lexicon in self._open.items() if not lexicon.holds_only_live_text()]

    def close_writers(self) -> None:
        """Wait for merges and release what writing holds."""
        for lexicon in self._open.values():
            lexicon.close_writer()

    def abandon_writers(self) -> None:
        """Release what writing holds without waiting."""
        for lexicon in self._open.values():
            lexicon.abandon_writer()

    def remove_unused(self) -> None:
        """Remove every directory that is not in use."""
        used = {self._path(source, number) for source, number in self._numbers.items()}
        for path in self._directory.iterdir():
            if path not in used:
                remove_tree(path)

    def _path(self, source: Source, number: int) -> Path:
        return self._directory / f"{source}-{number}"
