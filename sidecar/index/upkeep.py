"""Clean-up beside the running index: text that left, unused vectors, and the graph of many vectors."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from sidecar.domain.errors import StateError
from sidecar.domain.memory import Source
from sidecar.index.database import CATALOG_NAME, EMBEDDINGS_NAME
from sidecar.index.healing import VECTORS_NAME, IndexSettings, OpenIndex, fill_lexicon
from sidecar.index.lexicon import Lexicon
from sidecar.index.private_files import aside_since, drop_aside
from sidecar.index.vector_base import VectorBase, build_base, drop_base
from sidecar.index.vectors import VectorSnapshot, live_rows

ASIDE_SECONDS = 600

_LOG = logging.getLogger("sidecar.index")
_ROWS_AT_ONCE = 4096


class Upkeep:
    """The clean-up of one index. It shares the writer's lock, and `show` publishes what it changed."""

    def __init__(
        self,
        settings: IndexSettings,
        writing: asyncio.Lock,
        parts: Callable[[], OpenIndex],
        show: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._writing = writing
        self._parts = parts
        self._show = show
        self._clock = clock
        self._cleaning = asyncio.Lock()
        self._stop = threading.Event()
        self._renewal: asyncio.Task[None] | None = None

    async def maintain(self) -> None:
        """The bounded clean-up; changes and searches go on but for the last step of each part."""
        async with self._cleaning:
            if self._stop.is_set():
                return
            for source in await self._unclean():
                await self._rewrite_beside(source)
            async with self._writing:
                if not self._stop.is_set():
                    await self._parts().catalog.vectors.sweep(self._clock())
                    await self._parts().catalog.checkpoint()
            await asyncio.to_thread(self._drop_aside, ASIDE_SECONDS)
            self.renew_if_due()

    async def purge(self, *, grace: float) -> None:
        """The same at once and for everything, with changes waiting; unused vectors after `grace` seconds."""
        async with self._cleaning:
            await self._settled_renewal()
            async with self._writing:
                if self._stop.is_set():
                    raise StateError("the index is closed")
                parts = self._parts()
                await asyncio.to_thread(parts.lexicons.close_writers)
                for source in await asyncio.to_thread(parts.lexicons.unclean):
                    await self._rewrite(parts, source)
                await parts.catalog.vectors.sweep(self._clock(), grace=grace, models=1)
                await parts.catalog.vacuum()
                await asyncio.to_thread(self._drop_aside, 0)
            await self._purge_graph()

    def renew_if_due(self) -> None:
        """Start to rebuild the vector rows in the background when enough of them have changed."""
        rows = self._parts().state.rows
        if rows is not None and rows.wants_renewal and self._renewal is None and not self._stop.is_set():
            self._renewal = asyncio.ensure_future(self._renew())

    async def settled(self) -> None:
        """Wait for a rebuild of the vector rows that is under way."""
        await self._settled_renewal()

    async def stop(self) -> None:
        """End background work; what it has not finished is done after the next start."""
        self._stop.set()
        await self._settled_renewal()
        async with self._cleaning:
            pass

    async def _settled_renewal(self) -> None:
        while self._renewal is not None:
            await asyncio.wait([self._renewal])
            # The task clears the attribute as its last act; a cancelled one may not have.
            if self._renewal is not None and self._renewal.done():
                self._renewal = None

    async def _unclean(self) -> list[Source]:
        async with self._writing:
            if self._stop.is_set():
                return []
            lexicons = self._parts().lexicons
            await asyncio.to_thread(lexicons.close_writers)
            return await asyncio.to_thread(lexicons.unclean)

    async def _rewrite_beside(self, source: Source) -> None:
        """Write a lexicon anew from the catalog while changes go on, catch up with them, and take over."""
        parts = self._parts()
        seen = {n for n, entry in parts.state.documents.items() if entry.source == source}
        lexicon = await asyncio.to_thread(parts.lexicons.build, source)
        await fill_lexicon(parts.catalog, lexicon, sorted(seen))
        async with self._writing:
            if self._stop.is_set() or self._parts() is not parts:
                lexicon.abandon_writer()
                return
            now = {n for n, entry in parts.state.documents.items() if entry.source == source}
            await asyncio.to_thread(lexicon.stage, seen - now, ())
            await fill_lexicon(parts.catalog, lexicon, sorted(now - seen))
            await self._take_over(parts, source, lexicon)

    async def _rewrite(self, parts: OpenIndex, source: Source) -> None:
        numbers = sorted(n for n, entry in parts.state.documents.items() if entry.source == source)
        lexicon = await asyncio.to_thread(parts.lexicons.build, source)
        await fill_lexicon(parts.catalog, lexicon, numbers)
        await self._take_over(parts, source, lexicon)

    async def _take_over(self, parts: OpenIndex, source: Source, lexicon: Lexicon) -> None:
        """Number first: from then on a crash opens the new directory. Views of the old one keep its files."""
        await asyncio.to_thread(lexicon.close_writer)
        await parts.catalog.set_meta({f"lexicon.{source}": str(parts.lexicons.next_number(source))})
        await asyncio.to_thread(parts.lexicons.take_over, source, lexicon)
        self._show()
        await asyncio.to_thread(parts.lexicons.remove_unused)

    def _drop_aside(self, seconds: float) -> None:
        for name in (CATALOG_NAME, EMBEDDINGS_NAME):
            path = self._settings.directory / name
            for number, since in aside_since(path):
                if since <= self._clock() - seconds or not seconds:
                    drop_aside(path, number)

    async def _purge_graph(self) -> None:
        """Build the graph anew when it holds vectors of blocks that are gone."""
        rows = self._parts().state.rows
        if rows is not None and rows.has_dead and not self._stop.is_set():
            self._renewal = asyncio.ensure_future(self._renew())
            await self._settled_renewal()

    async def _renew(self) -> None:
        try:
            await self._renew_rows()
        except OSError as error:
            _LOG.warning("the vector graph could not be built: %s", error.strerror)
        finally:
            self._renewal = None

    async def _renew_rows(self) -> None:
        parts = self._parts()
        state = parts.state
        rows, model = state.rows, state.model
        if rows is None or model is None:
            return
        seen = rows.snapshot()
        kept = live_rows(seen)
        directory = self._settings.directory / VECTORS_NAME
        base: VectorBase | None = None
        if rows.wants_graph:
            pieces = _pieces(seen, kept)
            numbers = seen.numbers[kept]
            base = await asyncio.to_thread(
                build_base, directory, parts.store, model, numbers, pieces, self._stop
            )
            if base is None:
                return
        async with self._writing:
            if self._parts() is parts and state.rows is rows and not self._stop.is_set():
                state.rows = await asyncio.to_thread(rows.renewed, seen, kept, base)
                self._show()
                if base is None:
                    await asyncio.to_thread(drop_base, directory)


def _pieces(seen: VectorSnapshot, kept: NDArray[np.int64]) -> Iterator[NDArray[np.float32]]:
    for start in range(0, len(kept), _ROWS_AT_ONCE):
        yield seen.vectors(kept[start : start + _ROWS_AT_ONCE])
