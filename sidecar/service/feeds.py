"""What an indexer follows: a corpus, and how its files become documents. `NoteFeed` is for Markdown."""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Iterable, Sequence
from typing import Protocol

import msgspec

from sidecar.corpus.scan import Corpus
from sidecar.domain.corpus import FileStamp, Scan, Skipped, SourceFile
from sidecar.domain.errors import CorpusError
from sidecar.domain.halting import Checkpoint
from sidecar.index.documents import IndexDocument
from sidecar.index.view import View
from sidecar.service.documents import Unchanged
from sidecar.service.preparing import Preparers, Work

SETTLED_NS = 2_000_000_000


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One generation's worth of changes: documents, index paths that go, restamps, and what was not read."""

    documents: tuple[IndexDocument, ...] = ()
    removed: tuple[str, ...] = ()
    restamps: tuple[tuple[str, FileStamp, bool], ...] = ()
    skipped: tuple[Skipped, ...] = ()
    files_indexed: int = 0
    files_removed: int = 0


Steps = Generator[Step, None, None]


class Feed(Protocol):
    """A corpus as an indexer follows it. `scan`, `look` and the steps block; the rest is quick.

    What may take long is given a checkpoint and raises `Halted` soon after it says so.
    """

    def scan(self, check: Checkpoint) -> Scan:
        """A full look."""
        ...

    def look(self, path: str) -> SourceFile | Skipped | None:
        """The scan's decision for one path, now."""
        ...

    def is_below(self, path: str, folder: str) -> bool:
        """Whether an unreadable folder covers a path."""
        ...

    def known(self, view: View) -> Collection[str]:
        """The caller paths of the files that are indexed."""
        ...

    def documents(self, view: View, path: str) -> Iterable[str]:
        """The index paths of a file that is indexed."""
        ...

    def differs(self, view: View, file: SourceFile) -> bool:
        """Whether a file has to be read."""
        ...

    def doubt(self, paths: Iterable[str]) -> None:
        """These files seem to differ from the index, whatever their stamps say."""
        ...

    def steps(self, view: View, files: Sequence[SourceFile], check: Checkpoint) -> Steps:
        """Read files that differ, and what to change for them, bounded in each step."""
        ...

    def rest(self) -> None:
        """Give up what reading many files took. Blocking."""
        ...


def is_settled(stamp: FileStamp) -> bool:
    """Whether a file rested before it was read: else it could change again within one tick, unseen."""
    return time.time_ns() - stamp.ctime_ns > SETTLED_NS


class NoteFeed:
    """Markdown files: one document each."""

    def __init__(self, corpus: Corpus, preparers: Preparers) -> None:
        self._corpus = corpus
        self._preparers = preparers

    def scan(self, check: Checkpoint) -> Scan:
        """As `Corpus.scan`."""
        return self._corpus.scan(check)

    def look(self, path: str) -> SourceFile | Skipped | None:
        """As `Corpus.look`."""
        return self._corpus.look(path)

    def is_below(self, path: str, folder: str) -> bool:
        """As `Corpus.is_below`."""
        return self._corpus.is_below(path, folder)

    def known(self, view: View) -> Collection[str]:
        """Every path of the index."""
        return view.paths

    def documents(self, view: View, path: str) -> Iterable[str]:
        """The path itself."""
        return (path,) if path in view.paths else ()

    def differs(self, view: View, file: SourceFile) -> bool:
        """Unknown, touched, or not yet settled when it was last read."""
        entry = view.paths.get(file.path)
        return entry is None or entry.stamp != file.stamp or not entry.settled

    def doubt(self, paths: Iterable[str]) -> None:
        """Their stamps tell."""

    def steps(self, view: View, files: Sequence[SourceFile], check: Checkpoint) -> Steps:
        """All files in one step: a caller keeps the batch small."""
        works: list[Work] = []
        documents: list[IndexDocument] = []
        restamps: list[tuple[str, FileStamp, bool]] = []
        skipped: list[Skipped] = []
        gone: list[str] = []
        for file in files:
            check()
            known = view.paths.get(file.path)
            try:
                read = self._corpus.read(file)
            except CorpusError as error:
                skipped.append(Skipped(file.path, error.reason))
                continue
            if read is None:
                gone += self.documents(view, file.path)
                continue
            settled = is_settled(read.file.stamp) and read.note != "changing"
            works.append(Work(read, settled, None if known is None else known.content_hash))
        for outcome in self._preparers.prepare(works, self, check):
            if isinstance(outcome, Unchanged):
                restamps.append((outcome.path, outcome.stamp, outcome.settled))
            else:
                documents.append(outcome)
        yield Step(
            documents=tuple(documents),
            removed=tuple(gone),
            restamps=tuple(restamps),
            skipped=tuple(skipped),
            files_indexed=len(documents),
            files_removed=len(gone),
        )

    def rest(self) -> None:
        """The worker processes are for large scans."""
        self._preparers.release(self)
