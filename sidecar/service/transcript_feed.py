"""Transcripts as an indexer follows them: an append costs the last chunk, all else a look at the whole."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from sidecar.corpus.rules import MISSING
from sidecar.corpus.transcripts import TranscriptCorpus
from sidecar.domain.corpus import FileStamp, Scan, Skipped, SourceFile
from sidecar.domain.errors import CorpusError
from sidecar.domain.halting import Checkpoint
from sidecar.index.documents import IndexDocument
from sidecar.index.entries import DocumentEntry
from sidecar.index.view import View
from sidecar.service.feeds import Step, Steps
from sidecar.service.transcript_change import Known, TranscriptChange
from sidecar.service.transcript_documents import facts_of, transcript_of

STEP_CHUNKS = 32
"""Chunks that one generation takes up, about 1 MB of text."""

MOST_DOUBTED = 1000


class TranscriptFeed:
    """The feed of one agent's transcripts."""

    def __init__(self, corpus: TranscriptCorpus) -> None:
        self._corpus = corpus
        self._lock = threading.Lock()
        self._doubted: dict[str, None] = {}
        self._grouped: tuple[int, Mapping[str, Known]] = (-1, {})

    def transcripts(self, view: View) -> Mapping[str, Known]:
        """The indexed transcripts of a view by caller path."""
        generation, grouped = self._grouped
        if generation != view.generation:
            found: dict[str, list[DocumentEntry]] = {}
            for entry in view.documents.values():
                found.setdefault(transcript_of(entry.path), []).append(entry)
            grouped = {
                path: Known(tuple(sorted(entries, key=lambda entry: facts_of(entry).start.number)))
                for path, entries in found.items()
            }
            self._grouped = (view.generation, grouped)
        return grouped

    def rest(self) -> None:
        """Nothing is held."""

    def scan(self, check: Checkpoint) -> Scan:
        """As `TranscriptCorpus.scan`: one folder."""
        check()
        return self._corpus.scan()

    def look(self, path: str) -> SourceFile | Skipped | None:
        """As `TranscriptCorpus.look`."""
        return self._corpus.look(path)

    def is_below(self, path: str, folder: str) -> bool:
        """As `TranscriptCorpus.is_below`."""
        return self._corpus.is_below(path, folder)

    def known(self, view: View) -> Collection[str]:
        """The transcripts that were read, those of which nothing is indexed included."""
        return self.transcripts(view).keys()

    def documents(self, view: View, path: str) -> Iterable[str]:
        """The chunks of a transcript."""
        known = self.transcripts(view).get(path)
        return () if known is None else tuple(entry.path for entry in known.chunks)

    def differs(self, view: View, file: SourceFile) -> bool:
        """Unknown, touched, unsettled, in doubt, or judged otherwise by the gateway's store than before."""
        known = self.transcripts(view).get(file.path)
        if known is None or file.path in self._doubted:
            return True
        last = known.last
        touched = last.stamp != file.stamp or not last.settled
        return touched or not known.is_whole or self._is_judged_anew(known, file.path)

    def doubt(self, paths: Iterable[str]) -> None:
        """These are read from their beginning next time."""
        with self._lock:
            for path in paths:
                if len(self._doubted) < MOST_DOUBTED:
                    self._doubted[path] = None

    def steps(self, view: View, files: Sequence[SourceFile], check: Checkpoint) -> Steps:
        """Read files, `STEP_CHUNKS` at a time. A file of which a chunk is missing is read on from there."""
        known = self.transcripts(view)
        pending = _Pending()
        for file in files:
            with self._lock:
                doubted = self._doubted.pop(file.path, ...) is None
            try:
                with self._corpus.opened(file.path, check) as opened:
                    held = msgspec.structs.replace(file, stamp=opened.stamp)
                    change = TranscriptChange(
                        held,
                        opened,
                        known.get(file.path),
                        by_store=self._corpus.generated(file.path),
                        whole=doubted,
                    )
                    for document in change.documents():
                        check()
                        pending.documents[document.path] = document
                        if len(pending.documents) >= STEP_CHUNKS:
                            yield pending.step()
                            pending = _Pending()
                    pending.remove(change.removed)
                    pending.restamps += change.restamps
                    pending.indexed += change.changed
            except CorpusError as error:
                if error.reason == MISSING:
                    pending.remove(self.documents(view, file.path))
                    pending.gone += file.path in known
                else:
                    pending.skipped.append(Skipped(file.path, error.reason))
        yield pending.step()

    def _is_judged_anew(self, known: Known, path: str) -> bool:
        """Whether the gateway's store has another word on a file now."""
        if self._corpus.generated(path) is not None:
            return known.dropped is None
        return known.dropped_by_store


class _Pending:
    """What the next step holds."""

    def __init__(self) -> None:
        self.documents: dict[str, IndexDocument] = {}
        self._removed: dict[str, None] = {}
        self.restamps: list[tuple[str, FileStamp, bool]] = []
        self.skipped: list[Skipped] = []
        self.indexed = 0
        self.gone = 0

    def remove(self, paths: Iterable[str]) -> None:
        """These go, whether they are in the index or were to be written with this step."""
        for path in paths:
            self.documents.pop(path, None)
            self._removed[path] = None

    def step(self) -> Step:
        """What was gathered."""
        return Step(
            documents=tuple(self.documents.values()),
            removed=tuple(self._removed),
            restamps=tuple(self.restamps),
            skipped=tuple(self.skipped),
            files_indexed=self.indexed,
            files_removed=self.gone,
        )
