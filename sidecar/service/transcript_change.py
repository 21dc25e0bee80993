"""What a transcript that differs from the index asks for: which chunks stay, which are written, which go."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from sidecar.corpus.transcripts import OpenTranscript
from sidecar.domain.corpus import FileStamp, SourceFile
from sidecar.index.documents import IndexDocument
from sidecar.index.entries import DocumentEntry
from sidecar.service.feeds import is_settled
from sidecar.service.transcript_documents import (
    chunk_path,
    document_of_chunk,
    facts_of,
    mark_of_dropped,
)
from sidecar.text.transcript_chunks import Start, chunks

WHOLE_BYTES = 8 * 1024 * 1024
"""Up to this size a file that grew is proven from its beginning, beyond it by its last chunk."""

ONLY_SYSTEM = "system"
BY_STORE = "store-"


class Known(msgspec.Struct, frozen=True):
    """An indexed transcript: its chunks in order."""

    chunks: tuple[DocumentEntry, ...]

    @property
    def last(self) -> DocumentEntry:
        """The chunk that an append changes; its stamp is the file's."""
        return self.chunks[-1]

    @property
    def reset(self) -> int | None:
        """The physical line of the last reset."""
        return facts_of(self.last).reset

    @property
    def dropped(self) -> str | None:
        """Why nothing of it is indexed, if so."""
        return facts_of(self.chunks[0]).dropped

    @property
    def is_whole(self) -> bool:
        """Whether all of the file was taken up; not so when it was interrupted."""
        end = facts_of(self.last).end
        return self.dropped is not None or (end == self.last.stamp.size and self.is_contiguous)

    @property
    def is_contiguous(self) -> bool:
        """Whether each chunk begins where the one before it ends."""
        facts = [facts_of(entry) for entry in self.chunks]
        inner = all(one.end == other.start.byte for one, other in pairwise(facts))
        return facts[0].start.byte == 0 and inner

    @property
    def dropped_by_store(self) -> bool:
        """Whether the gateway's store said so."""
        return (self.dropped or "").startswith(BY_STORE)


class TranscriptChange:
    """What one open transcript asks for: `documents` first, then the rest is known."""

    def __init__(
        self,
        file: SourceFile,
        opened: OpenTranscript,
        known: Known | None,
        *,
        by_store: str | None,
        whole: bool,
    ) -> None:
        """`by_store`: by what machinery the gateway says that it was made. `whole`: take nothing on trust."""
        self._file = file
        self._opened = opened
        self._known = known
        self._by_store = by_store
        self._whole = whole
        self._settled = is_settled(file.stamp)
        self.removed: list[str] = []
        self.restamps: list[tuple[str, FileStamp, bool]] = []
        self.changed = False

    def documents(self) -> Iterator[IndexDocument]:
        """The documents to write, in order, one chunk in memory at a time."""
        if self._stays_dropped():
            self._restamp()
            return
        if self._by_store is not None:
            yield self._mark(BY_STORE + self._by_store)
            return
        kept = self._proven()
        if kept and facts_of(kept[-1]).end == self._file.stamp.size:
            self.changed = len(kept) < self._count
            self._remove_from(len(kept))
            self._restamp(kept[-1])
            return
        if not kept and self._says_nothing():
            yield self._mark(ONLY_SYSTEM)
            return
        yield from self._written(facts_of(kept[-1]).start if kept else Start())

    def _written(self, start: Start) -> Iterator[IndexDocument]:
        """The chunks from a start to the file's end; a record that tells of machinery takes all back."""
        self.changed = True
        number = start.number
        for chunk in chunks(self._opened.pieces(start.byte), start):
            if chunk.generated is not None:
                yield self._mark(chunk.generated)
                self.removed += [chunk_path(self._file.path, written) for written in range(1, number)]
                return
            number = chunk.start.number + 1
            yield document_of_chunk(self._file, chunk, settled=self._settled)
        self._remove_from(number)

    @property
    def _count(self) -> int:
        return len(self._known.chunks) if self._known is not None else 0

    def _is_same_file(self, known: Known) -> bool:
        """The file that was indexed, perhaps grown."""
        stamp = known.last.stamp
        same = (stamp.inode, stamp.device) == (self._file.stamp.inode, self._file.stamp.device)
        return same and self._file.stamp.size >= facts_of(known.last).end

    def _stays_dropped(self) -> bool:
        """Whether nothing is indexed of it as before. What a record told once, no later one takes back."""
        known = self._known
        if known is None or known.dropped is None or self._whole or not self._is_same_file(known):
            return False
        if self._by_store is not None:
            return True
        if known.dropped == ONLY_SYSTEM:
            return known.last.stamp == self._file.stamp
        return not known.dropped_by_store

    def _proven(self) -> Sequence[DocumentEntry]:
        """The known chunks, from the first on, that the file still holds."""
        known = self._known
        if known is None or known.dropped is not None:
            return ()
        last, stamp = known.last, self._file.stamp
        grown = stamp.size > last.stamp.size or stamp == last.stamp
        trusted = not self._whole and grown and known.is_contiguous and self._is_same_file(known)
        if trusted and stamp.size > WHOLE_BYTES and self._holds(last):
            # The beginning of a large file that only grows is proven when something of it is shown.
            return known.chunks
        kept: list[DocumentEntry] = []
        for entry in known.chunks:
            follows = facts_of(entry).start.byte == (facts_of(kept[-1]).end if kept else 0)
            if not follows or not self._holds(entry):
                break
            kept.append(entry)
        return kept

    def _holds(self, entry: DocumentEntry) -> bool:
        facts = facts_of(entry)
        if facts.end > self._file.stamp.size:
            return False
        digest = hashlib.sha256()
        for piece in self._opened.pieces(facts.start.byte, facts.end):
            digest.update(piece)
        return digest.digest() == entry.content_hash

    def _says_nothing(self) -> bool:
        """Whether every message of the file is the system's own; looks no further than the first other."""
        some = False
        for chunk in chunks(self._opened.pieces(0), Start()):
            if chunk.generated is not None or any(record.origin != "system" for record in chunk.records):
                return False
            some = some or bool(chunk.records)
        return some

    def _mark(self, reason: str) -> IndexDocument:
        self.changed = True
        self._remove_from(1)
        return mark_of_dropped(self._file, reason, settled=self._settled)

    def _remove_from(self, number: int) -> None:
        if self._known is not None:
            self.removed += [entry.path for entry in self._known.chunks[number:]]

    def _restamp(self, entry: DocumentEntry | None = None) -> None:
        if entry is None and self._known is not None:
            entry = self._known.last
        if entry is not None:
            self.restamps.append((entry.path, self._file.stamp, self._settled))
