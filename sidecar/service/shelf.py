"""The lines of documents, proven against the disk before anything of them is released (spec §1.5).

A document whose file has the stamp it was indexed with, and had time to settle, is taken as it is; on any
doubt the file is read and its hash decides. Lines are kept in a cache bounded by bytes.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Collection

import msgspec

from sidecar.corpus.scan import Corpus
from sidecar.domain.corpus import SourceFile
from sidecar.domain.errors import CorpusError
from sidecar.index.entries import DocumentEntry
from sidecar.text.lines import decode, split_lines

CAPACITY_BYTES = 16 * 1024 * 1024


class Kept(msgspec.Struct, frozen=True):
    """A document's lines, the file they were read from, and what they count against the capacity."""

    lines: list[str]
    file: SourceFile
    size: int


class Shelf:
    """Verified lines by document version. Blocking, and safe to call from several threads."""

    def __init__(self, corpus: Corpus, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._corpus = corpus
        self._capacity = capacity_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, Kept] = OrderedDict()
        self._size = 0

    def lines(self, entry: DocumentEntry, still: Collection[str] = ()) -> list[str] | None:
        """The document's lines if its file is still what was indexed, else None: look at the file again.

        `still` are folders that were just seen to be as the scan left them (`Corpus.folders_still`).
        """
        kept = self._take(entry.document_id)
        if kept is not None and entry.settled and self._corpus.stamp(kept.file, still) == entry.stamp:
            return kept.lines
        try:
            read = self._corpus.read(entry.path if kept is None else kept.file)
        except CorpusError:
            return None
        if read is None or hashlib.sha256(read.data).digest() != entry.content_hash:
            return None
        lines = split_lines(decode(read.data).text)
        self._keep(entry.document_id, Kept(lines, read.file, len(read.data)))
        return lines

    def indexed(self, entry: DocumentEntry) -> list[str] | None:
        """The document's lines as they were indexed, whether or not they stand in its file now.

        None when they are not kept and the file has changed. For names of texts, never for a text itself.
        """
        kept = self._take(entry.document_id)
        return self.lines(entry) if kept is None else kept.lines

    def clear(self) -> None:
        """Forget every kept line (purge)."""
        with self._lock:
            self._kept.clear()
            self._size = 0

    def _take(self, document_id: int) -> Kept | None:
        with self._lock:
            kept = self._kept.get(document_id)
            if kept is not None:
                self._kept.move_to_end(document_id)
            return kept

    def _keep(self, document_id: int, kept: Kept) -> None:
        if kept.size > self._capacity // 4:
            return
        with self._lock:
            previous = self._kept.pop(document_id, None)
            self._size += kept.size - (previous.size if previous is not None else 0)
            self._kept[document_id] = kept
            while self._size > self._capacity:
                _, dropped = self._kept.popitem(last=False)
                self._size -= dropped.size
