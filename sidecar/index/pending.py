"""Blocks that have no vector yet: what is left to embed, counted as it changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import islice

import msgspec

from sidecar.domain.memory import Source


class PendingBlock(msgspec.Struct, frozen=True):
    """Where a block without a vector stands."""

    document_id: int
    ordinal: int
    first_unit: int
    last_unit: int
    source: Source


class PendingBlocks:
    """The blocks without a vector by content hash; every operation costs only what it touches."""

    def __init__(self) -> None:
        self._by_hash: dict[bytes, list[PendingBlock]] = {}
        self._by_document: dict[int, set[bytes]] = {}
        self._counts: Counter[Source] = Counter()

    def __len__(self) -> int:
        return len(self._by_hash)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._by_hash

    @property
    def counts(self) -> Mapping[Source, int]:
        """How many blocks of each source wait."""
        return self._counts

    def add(self, digest: bytes, block: PendingBlock) -> None:
        """A block waits for the vector of this hash."""
        self._by_hash.setdefault(digest, []).append(block)
        self._by_document.setdefault(block.document_id, set()).add(digest)
        self._counts[block.source] += 1

    def resolve(self, digest: bytes) -> list[PendingBlock]:
        """The vector is there: the blocks that waited for it."""
        blocks = self._by_hash.pop(digest, [])
        for block in blocks:
            self._counts[block.source] -= 1
            hashes = self._by_document.get(block.document_id)
            if hashes is not None:
                hashes.discard(digest)
                if not hashes:
                    del self._by_document[block.document_id]
        return blocks

    def drop(self, document_id: int) -> None:
        """The document is gone, and with it what it waited for."""
        for digest in self._by_document.pop(document_id, ()):
            blocks = self._by_hash[digest]
            kept = [block for block in blocks if block.document_id != document_id]
            for block in blocks:
                if block.document_id == document_id:
                    self._counts[block.source] -= 1
            if kept:
                self._by_hash[digest] = kept
            else:
                del self._by_hash[digest]

    def first(self, limit: int, skip: Collection[bytes] = ()) -> Iterator[tuple[bytes, PendingBlock]]:
        """The hashes that have waited longest but for those of `skip`, each with one place of its text."""
        waiting = ((digest, blocks[0]) for digest, blocks in self._by_hash.items() if digest not in skip)
        return islice(waiting, limit)
