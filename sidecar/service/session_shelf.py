"""The records of chunks, rendered from the disk and proven before anything of them is released (spec §1.5).

A chunk is proven by its own bytes: they are read and hashed, unless its file is as it was when they were.
So what is appended elsewhere costs nothing, and what was changed is never shown. Kept within a bound.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from sidecar.corpus.transcripts import TranscriptCorpus
from sidecar.domain.corpus import FileStamp, SourceFile
from sidecar.domain.errors import CorpusError
from sidecar.index.entries import DocumentEntry
from sidecar.service.feeds import is_settled
from sidecar.service.transcript_documents import facts_of, transcript_of
from sidecar.text.transcript_chunks import chunks
from sidecar.text.transcripts import Rendered

CAPACITY_CHARACTERS = 8 * 1024 * 1024


class _Kept(msgspec.Struct, frozen=True):
    """A chunk's records, and the stamp of its file when its bytes were proven; None for one just written."""

    records: tuple[Rendered, ...]
    stamp: FileStamp | None
    size: int


class SessionShelf:
    """Proven records by chunk version. Blocking, and safe to call from several threads."""

    def __init__(self, corpus: TranscriptCorpus, capacity: int = CAPACITY_CHARACTERS) -> None:
        self._corpus = corpus
        self._capacity = capacity
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._size = 0

    def records(self, entry: DocumentEntry) -> tuple[Rendered, ...] | None:
        """What a chunk says if its bytes are still those that were indexed, else None."""
        path = transcript_of(entry.path)
        kept = self._take(entry.document_id)
        if kept is not None and kept.stamp is not None:
            present = self._corpus.look(path)
            if isinstance(present, SourceFile) and present.stamp == kept.stamp:
                return kept.records
        facts = facts_of(entry)
        digest = hashlib.sha256()
        with suppress(CorpusError), self._corpus.opened(path) as opened:
            stamp = opened.stamp if is_settled(opened.stamp) else None

            def hashed() -> Iterator[bytes]:
                for piece in opened.pieces(facts.start.byte, facts.end):
                    digest.update(piece)
                    yield piece

            if kept is not None:
                for _ in hashed():
                    pass
                records = kept.records
            else:
                made = list(chunks(hashed(), facts.start))
                records = tuple(record for chunk in made for record in chunk.records)
            if digest.digest() == entry.content_hash:
                self._keep(entry.document_id, _Kept(records, stamp, sum(len(r.text) for r in records) + 256))
                return records
        return None

    def clear(self) -> None:
        """Forget everything (purge)."""
        with self._lock:
            self._kept.clear()
            self._size = 0

    def _take(self, document_id: int) -> _Kept | None:
        with self._lock:
            kept = self._kept.get(document_id)
            if kept is not None:
                self._kept.move_to_end(document_id)
            return kept

    def _keep(self, document_id: int, kept: _Kept) -> None:
        with self._lock:
            previous = self._kept.pop(document_id, None)
            self._size += kept.size - (previous.size if previous is not None else 0)
            self._kept[document_id] = kept
            while self._size > self._capacity and len(self._kept) > 1:
                _, dropped = self._kept.popitem(last=False)
                self._size -= dropped.size
