"""The lines of documents, proven against the disk before anything of them is released (spec §1.5).

A document whose file has the stamp it was indexed with, and had time to settle, is taken as it is; on any
doubt the file is read and its hash decides. Lines are kept in a cache bounded by bytes.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

from sidecar.corpus.scan import Corpus
from sidecar.domain.errors import CorpusError
from sidecar.index.view import StoredDocument
from sidecar.text.lines import decode, split_lines

CAPACITY_BYTES = 16 * 1024 * 1024


class Shelf:
    """Verified lines by document version. Blocking, and safe to call from several threads."""

    def __init__(self, corpus: Corpus, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._corpus = corpus
        self._capacity = capacity_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, tuple[list[str], int]] = OrderedDict()
        self._size = 0

    def lines(self, document: StoredDocument) -> list[str] | None:
        """The document's lines if its file is still what was indexed, else None: look at the file again."""
        stamp = self._corpus.stamp(document.path)
        if stamp is None:
            return None
        if stamp == document.stamp and document.settled:
            kept = self._take(document.document_id)
            if kept is not None:
                return kept
        try:
            read = self._corpus.read(document.path)
        except CorpusError:
            return None
        if read is None or hashlib.sha256(read.data).digest() != document.content_hash:
            return None
        lines = split_lines(decode(read.data).text)
        self._keep(document.document_id, lines, len(read.data))
        return lines

    def clear(self) -> None:
        """Forget every kept line (purge)."""
        with self._lock:
            self._kept.clear()
            self._size = 0

    def _take(self, document_id: int) -> list[str] | None:
        with self._lock:
            kept = self._kept.get(document_id)
            if kept is None:
                return None
            self._kept.move_to_end(document_id)
            return kept[0]

    def _keep(self, document_id: int, lines: list[str], size: int) -> None:
        if size > self._capacity // 4:
            return
        with self._lock:
            previous = self._kept.pop(document_id, None)
            self._size += size - (previous[1] if previous is not None else 0)
            self._kept[document_id] = (lines, size)
            while self._size > self._capacity:
                _, (_, dropped) = self._kept.popitem(last=False)
                self._size -= dropped
