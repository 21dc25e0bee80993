"""The index of one agent: one writer, generations, and the views that searches read.

A change goes through four steps, and `on_step` is called after each with its name:

    announced   documents and journal are in the catalog, nothing is visible
    committed   the lexical engines hold the new documents and no longer the old ones
    published   the catalog agrees and the journal is empty
    visible     `view()` gives the new generation

Whatever interrupts it, the next open (or the next change, when the process lives on) completes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from sidecar.domain.corpus import FileStamp
from sidecar.domain.errors import StateError, StoreDamaged
from sidecar.domain.memory import Source
from sidecar.index.adopting import adopt_model
from sidecar.index.catalog import Journal, Restamp
from sidecar.index.documents import IndexDocument, LexicalLayout, VectorModel
from sidecar.index.entries import PackedDocument, pack_document
from sidecar.index.healing import IndexSettings, OpenIndex, open_index
from sidecar.index.packing import Contents
from sidecar.index.upkeep import Upkeep
from sidecar.index.vector_cache import UNUSED_SECONDS
from sidecar.index.vectors import CROSSOVER_ROWS
from sidecar.index.view import View

WRITER_IDLE_SECONDS = 2.0

Vector = NDArray[np.float32]
_Result = TypeVar("_Result")


class AgentIndex:
    """Made by `open`. Reading is `view()`; every other method may be awaited from anywhere at any time."""

    def __init__(
        self,
        settings: IndexSettings,
        parts: OpenIndex,
        *,
        clock: Callable[[], float],
        on_step: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._parts = parts
        self._clock = clock
        self._on_step = on_step
        self._writing = asyncio.Lock()
        self._interrupted = False
        self._distrusted = False
        self.times_anew = 0
        """How often the catalog turned out to be damaged and every document is asked for again."""
        self._closed = False
        self._idle: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[object]] = set()
        self._upkeep = Upkeep(settings, self._writing, lambda: self._parts, self._show, clock)
        self._view = parts.state.view(parts.generation, parts.lexicons.snapshots())

    @classmethod
    async def open(
        cls,
        directory: Path,
        *,
        model: VectorModel | None,
        layout: LexicalLayout,
        awaits_model: bool = False,
        crossover: int = CROSSOVER_ROWS,
        clock: Callable[[], float] = time.time,
        on_step: Callable[[str], None] = lambda _: None,
    ) -> AgentIndex:
        """Open and repair the index in `directory`; an unchanged index is only read.

        With `awaits_model` the vectors of earlier runs are kept for `adopt`, and words work until then.
        `crossover` is the number of vector rows up to which all are compared. Raises `StateError` when the
        directory or the disk refuses.
        """
        settings = IndexSettings(
            directory=directory, layout=layout, model=model, awaits_model=awaits_model, crossover=crossover
        )
        parts = await open_index(settings, clock())
        index = cls(settings, parts, clock=clock, on_step=on_step)
        index._upkeep.renew_if_due()
        return index

    def view(self) -> View:
        """The newest generation; it stays as it is for as long as it is kept."""
        return self._view

    @property
    def model(self) -> VectorModel | None:
        """Whose vectors are used; None without embeddings and until `adopt`."""
        return self._parts.state.model

    @property
    def repairs(self) -> tuple[str, ...]:
        """What the last open had to repair, in words for status."""
        return self._parts.repairs

    async def apply(
        self,
        upserts: Sequence[IndexDocument] = (),
        removals: Collection[str] = (),
        restamps: Sequence[tuple[str, FileStamp, bool]] = (),
        vectors: Mapping[bytes, Vector] | None = None,
    ) -> None:
        """One new generation with all of this, or none of it.

        `removals` are paths; a path that is also upserted is replaced. `restamps` are (path, stamp, settled)
        of files that were touched and not changed. `vectors` (hash -> vector of length 1) need to hold only
        what `known_vectors` did not have; a block without one is searchable by words and waits in
        `pending_blocks`. Raises `ValueError` for documents that cannot be stored, before anything is
        changed, and `StateError` when the disk refuses. A cancelled caller does not stop a change half-way.
        """
        given = self._checked(vectors or {})
        packed = await asyncio.to_thread(self._pack, upserts)
        await self._exclusively(lambda: self._apply(packed, removals, restamps, given))

    async def known_vectors(self, hashes: Collection[bytes]) -> dict[bytes, Vector]:
        """The vectors of this model that are known already, whatever document they were made for."""
        return await self._believing(lambda: self._known(hashes))

    def waiting(self, *, without: Collection[bytes] = ()) -> int:
        """How many texts have no vector, those of `without` not counted; 0 while the model is not known."""
        pending = self._parts.state.pending
        return len(pending) - sum(digest in pending for digest in without)

    async def pending_blocks(self, limit: int, skip: Collection[bytes] = ()) -> list[tuple[bytes, str]]:
        """(hash, text) of at most `limit` blocks that have no vector, those that waited longest first.

        Blocks with a hash of `skip` are passed over.
        """
        return await self._believing(lambda: self._waiting(limit, skip))

    async def _known(self, hashes: Collection[bytes]) -> dict[bytes, Vector]:
        model_id = self._parts.model_id
        return {} if model_id is None else await self._parts.catalog.vectors.known(model_id, hashes)

    async def _waiting(self, limit: int, skip: Collection[bytes]) -> list[tuple[bytes, str]]:
        waiting = list(self._parts.state.pending.first(limit, skip))
        numbers = sorted({block.document_id for _, block in waiting})
        texts: dict[int, list[str]] = {}
        async for part in self._parts.catalog.contents(numbers):
            texts |= {number: contents.blocks for number, contents in part}
        return [
            (digest, texts[block.document_id][block.ordinal])
            for digest, block in waiting
            if block.document_id in texts
        ]

    async def add_vectors(self, vectors: Mapping[bytes, Vector]) -> None:
        """Keep vectors and make the blocks that waited for them searchable by them."""
        given = self._checked(vectors)
        if given:
            await self._exclusively(lambda: self._add_vectors(given))

    async def adopt(self, model: VectorModel, sample: Vector) -> None:
        """Go over to the vectors of this model: what is cached of them is used at once, the rest waits.

        `sample` is its vector of a text that is always the same: when it is not like last time, the model
        has changed under its name and every block waits. Words are searched and changed as before. Raises
        `StateError` when the disk refuses.
        """
        await self._upkeep.settled()
        await self._exclusively(lambda: self._adopt(model, sample))

    async def maintain(self) -> None:
        """Bounded clean-up, to be called every few minutes: what is gone leaves the files (spec §2).

        Vectors unused for ten minutes are dropped, lexicons that still hold text of removed documents are
        written anew beside the running one, the write-ahead log is emptied, and what was set aside goes
        after ten minutes. Searches and changes go on meanwhile. Raises `StateError`.
        """
        await self._believing(self._upkeep.maintain)

    async def purge(self) -> None:
        """Remove everything that no live document needs from every file now; changes wait. `StateError`."""
        anew = self.times_anew
        # When every document is asked for again, no vector is unused: they are what those will want.
        await self._believing(
            lambda: self._upkeep.purge(grace=0 if anew == self.times_anew else UNUSED_SECONDS)
        )

    async def close(self) -> None:
        """Finish the running change and release everything; closing twice is harmless."""
        await self._upkeep.stop()
        async with self._writing:
            if self._closed:
                return
            self._closed = True
            self._cancel_idle()
            try:
                await asyncio.to_thread(self._parts.lexicons.close_writers)
            finally:
                await self._parts.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _pack(self, documents: Sequence[IndexDocument]) -> list[PackedDocument]:
        if len({document.path for document in documents}) != len(documents):
            raise ValueError("a path is given twice")
        return [pack_document(document, self._settings.layout) for document in documents]

    def _checked(self, vectors: Mapping[bytes, Vector]) -> dict[bytes, Vector]:
        model = self.model
        if model is None:
            return {}
        for vector in vectors.values():
            if vector.shape != (model.dimensions,) or not np.isfinite(vector).all():
                raise ValueError(f"not a vector of {model.name}: shape {vector.shape}")
        return {digest: np.asarray(vector, np.float32) for digest, vector in vectors.items()}

    async def _exclusively(self, change: Callable[[], Awaitable[_Result]]) -> _Result:
        """Run a change as the only one, to its end even if the caller goes away."""

        async def run() -> _Result:
            async with self._writing:
                if self._closed:
                    raise StateError("the index is closed")
                self._cancel_idle()
                try:
                    if self._interrupted:
                        await self._recover()
                    try:
                        return await change()
                    except StoreDamaged:
                        self._distrusted = True
                        await self._recover()
                        return await change()
                finally:
                    self._schedule_idle()

        task = asyncio.ensure_future(run())
        self._tasks.add(task)
        task.add_done_callback(self._forget_task)
        return await asyncio.shield(task)

    async def _believing(self, look: Callable[[], Awaitable[_Result]]) -> _Result:
        """Run what reads the stores; when they turn out to be damaged, make them anew and run it again."""
        await self._settled()
        try:
            return await look()
        except StoreDamaged:
            self._interrupted = self._distrusted = True
            await self._settled()
            return await look()

    async def _settled(self) -> None:
        """Before reading the catalog: a running change is waited for, and one that failed is completed."""
        if self._closed:
            raise StateError("the index is closed")
        if self._interrupted:
            await self._exclusively(_nothing)

    def _forget_task(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Looked at here, so that a failure whose caller has gone is not reported as unhandled.
            task.exception()

    async def _apply(
        self,
        packed: Sequence[PackedDocument],
        removals: Collection[str],
        restamps: Sequence[tuple[str, FileStamp, bool]],
        given: Mapping[bytes, Vector],
    ) -> None:
        parts = self._parts
        state = parts.state
        replaced = {document.document.path for document in packed}
        leaving = [entry for path in replaced | set(removals) if (entry := state.by_path(path)) is not None]
        gone = frozenset(entry.document_id for entry in leaving)
        touched = [
            Restamp(entry.document_id, stamp, settled)
            for path, stamp, settled in restamps
            if (entry := state.by_path(path)) is not None and entry.document_id not in gone
        ]
        if not (packed or gone or touched or given):
            return
        vectors = await self._vectors_for(packed, given)
        for source in {document.document.source for document in packed}:
            await self._ensure_lexicon(source)
        self._interrupted = True
        journal = Journal()
        entries = []
        if packed or gone:
            numbers = await parts.catalog.announce(packed, gone)
            journal = Journal(frozenset(numbers), gone)
            entries = [document.entry(n) for n, document in zip(numbers, packed, strict=True)]
        self._on_step("announced")
        removed: dict[Source, list[int]] = {}
        for entry in leaving:
            removed.setdefault(entry.source, []).append(entry.document_id)
        added: dict[Source, list[tuple[int, Contents]]] = {}
        for entry, document in zip(entries, packed, strict=True):
            added.setdefault(entry.source, []).append((entry.document_id, document.contents))
        await asyncio.to_thread(parts.lexicons.commit, removed, added)
        self._on_step("committed")
        await parts.catalog.publish(journal, touched, parts.generation + 1)
        self._on_step("published")
        self._interrupted = False
        state.forget(gone)
        blocks = [[(b.first_unit, b.last_unit, b.hash) for b in document.blocks] for document in packed]
        state.learn(list(zip(entries, blocks, strict=True)), vectors)
        state.restamp(touched)
        state.fill(vectors)
        self._show()
        self._on_step("visible")

    async def _vectors_for(
        self, packed: Sequence[PackedDocument], given: Mapping[bytes, Vector]
    ) -> dict[bytes, Vector]:
        """The given vectors, stored, and those that the cache has for the new blocks."""
        if self._parts.model_id is None:
            return {}
        if given:
            await self._parts.catalog.vectors.store(self._parts.model_id, given)
        wanted = {block.hash for document in packed for block in document.blocks} - given.keys()
        return {**await self._parts.catalog.vectors.known(self._parts.model_id, wanted), **given}

    async def _add_vectors(self, given: Mapping[bytes, Vector]) -> None:
        if self._parts.model_id is not None:
            await self._parts.catalog.vectors.store(self._parts.model_id, given)
            self._parts.state.fill(given)
            self._show()

    async def _adopt(self, model: VectorModel, sample: Vector) -> None:
        if await adopt_model(self._settings, model, sample, self._parts, self._clock()):
            self._settings = msgspec.structs.replace(self._settings, model=model)
            self._show()
            self._upkeep.renew_if_due()

    async def _ensure_lexicon(self, source: Source) -> None:
        lexicons = self._parts.lexicons
        if not lexicons.has(source):
            lexicon = await asyncio.to_thread(lexicons.build, source)
            await self._parts.catalog.set_meta({f"lexicon.{source}": str(lexicons.next_number(source))})
            await asyncio.to_thread(lexicons.take_over, source, lexicon)

    def _show(self) -> None:
        """Make the state of now the newest view: one assignment."""
        self._parts.generation += 1
        self._view = self._parts.state.view(self._parts.generation, self._parts.lexicons.snapshots())

    async def _recover(self) -> None:
        """After a change that failed half-way: open the stores again, which completes it."""
        parts = self._parts
        await asyncio.to_thread(parts.lexicons.abandon_writers)
        with contextlib.suppress(StateError):
            await parts.close()
        generation = parts.generation
        self._parts = await open_index(self._settings, self._clock(), distrusted=self._distrusted)
        self._parts.generation = max(generation, self._parts.generation)
        self.times_anew += self._distrusted
        self._interrupted = self._distrusted = False
        self._show()

    def _schedule_idle(self) -> None:
        loop = asyncio.get_running_loop()
        self._idle = loop.call_later(WRITER_IDLE_SECONDS, self._start_idle_close)

    def _cancel_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _start_idle_close(self) -> None:
        task: asyncio.Task[object] = asyncio.ensure_future(self._close_writers())
        self._tasks.add(task)
        task.add_done_callback(self._forget_task)

    async def _close_writers(self) -> None:
        """Release the writers' threads and memory, merges included; renew the vector rows if that is due.

        Not sooner: a graph that is built while thousands of notes come in is built again for each tenth of
        them. Where changes never pause, `maintain` does it.
        """
        async with self._writing:
            if self._closed:
                return
            await asyncio.to_thread(self._parts.lexicons.close_writers)
        self._upkeep.renew_if_due()


async def _nothing() -> None:
    """The change that only asks for what comes before every change."""
