"""Opening an index: whatever state a crash, a kill or a damaged file left is made whole here (spec §7).

1. the catalog is checked, and set aside when it is not usable;
2. each lexicon is checked; what the journal announces is done again, or the lexicon is rebuilt;
3. the journal is published, so that the catalog and the engines agree;
4. vectors are read, the graph only if it is whole and of this data.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from sidecar.domain.errors import StateError, StoreDamaged
from sidecar.domain.memory import SOURCES, Source
from sidecar.index.catalog import Catalog, Journal
from sidecar.index.database import CATALOG_NAME, COMPANIONS
from sidecar.index.documents import ORDINAL_BITS, LexicalLayout, VectorModel
from sidecar.index.entries import DocumentEntry
from sidecar.index.lexicon import Lexicon
from sidecar.index.lexicons import Lexicons
from sidecar.index.pending import PendingBlock, PendingBlocks
from sidecar.index.private_files import private_directory, remove_tree, set_aside
from sidecar.index.state import IndexState
from sidecar.index.vector_base import Numbers, VectorBase, drop_base, load_base
from sidecar.index.vectors import VectorRows

LEXICAL_NAME = "lexical"
VECTORS_NAME = "vectors"

_LOG = logging.getLogger("sidecar.index")


class IndexSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where an index lies and what it is made for.

    `model` None: words only, or, with `awaits_model`, words until somebody knows whose vectors to use.
    """

    directory: Path
    layout: LexicalLayout
    model: VectorModel | None
    awaits_model: bool
    crossover: int


class OpenIndex(msgspec.Struct, kw_only=True):
    """An index that is whole. `repairs` says in words what had to be done for that."""

    catalog: Catalog
    lexicons: Lexicons
    state: IndexState
    store: str
    model_id: int | None
    generation: int
    last_number: int
    repairs: tuple[str, ...]

    async def close(self) -> None:
        """Close the catalog; the lexicons have their own ends."""
        await self.catalog.close()


async def open_index(settings: IndexSettings, now: float, *, distrusted: bool = False) -> OpenIndex:
    """Open and repair; raises `StateError` when the directory or the disk refuses.

    `distrusted`: the stores turned out to be damaged in a way that opening them does not notice. The catalog
    is set aside then, and the vectors are kept as far as they prove themselves.
    """
    try:
        await asyncio.to_thread(private_directory, settings.directory)
    except OSError as error:
        raise StateError(f"the index directory cannot be used: {error.strerror}") from error
    repairs: list[str] = []
    path = settings.directory / CATALOG_NAME
    try:
        if distrusted:
            raise StoreDamaged("the index turned out to be damaged")  # noqa: TRY301 - as if it had been noticed
        return await _open(settings, now, repairs)
    except StoreDamaged as damage:
        note_repair(
            repairs, f"{damage.message}; it was set aside and the index is rebuilt from the workspace"
        )
        await asyncio.to_thread(set_aside, path, COMPANIONS)
    try:
        return await _open(settings, now, repairs, distrusted=distrusted)
    except StoreDamaged as damage:
        raise StateError("the index cannot be rebuilt") from damage


async def _open(
    settings: IndexSettings, now: float, repairs: list[str], *, distrusted: bool = False
) -> OpenIndex:
    had_engines = (settings.directory / LEXICAL_NAME).is_dir()
    await asyncio.to_thread(_make_room, settings.directory)
    catalog, fresh, repaired = await Catalog.open(settings.directory, distrusted=distrusted)
    try:
        for repair in repaired:
            note_repair(repairs, repair)
        if fresh and had_engines and not repairs:
            note_repair(repairs, "the catalog was missing; the index is rebuilt from the workspace")
        return await _heal(settings, catalog, now, repairs)
    except BaseException:
        await catalog.close()
        raise


async def _heal(settings: IndexSettings, catalog: Catalog, now: float, repairs: list[str]) -> OpenIndex:
    store = await catalog.meta("store") or ""
    if await catalog.meta("layout") != settings.layout.stamp:
        await catalog.forget_documents()
        await catalog.set_meta({"layout": settings.layout.stamp})
    last = await catalog.last_number()
    journal = await catalog.journal()
    entries = await catalog.entries()
    for number in journal.removed:
        entries.pop(number, None)
    lexical = settings.directory / LEXICAL_NAME
    lexicons = await asyncio.to_thread(Lexicons, lexical, settings.layout, store)
    try:
        for source in SOURCES:
            expected = {n: e for n, e in entries.items() if e.source == source}
            await _heal_source(catalog, lexicons, source, expected, journal, repairs)
        generation = _number(await catalog.meta("generation"))
        if journal:
            generation += 1
            await catalog.publish(journal, (), generation)
            note_repair(repairs, "an interrupted change was completed")
        await asyncio.to_thread(lexicons.remove_unused)
        parts = OpenIndex(
            catalog=catalog,
            lexicons=lexicons,
            state=IndexState(entries.values()),
            store=store,
            model_id=None,
            generation=generation,
            last_number=last,
            repairs=(),
        )
        if settings.model is not None:
            parts.model_id = await use_model(settings, settings.model, parts, now, repairs)
        elif not settings.awaits_model:
            await asyncio.to_thread(remove_tree, settings.directory / VECTORS_NAME)
    except BaseException:
        lexicons.abandon_writers()
        raise
    parts.repairs = tuple(repairs)
    return parts


async def use_model(
    settings: IndexSettings, model: VectorModel, parts: OpenIndex, now: float, repairs: list[str]
) -> int:
    """Give an index all vectors that are known of this model; gives the number of the model."""
    cache, entries = parts.catalog.vectors, parts.state.documents
    model_id = await cache.use_model(model, now)
    rows = await _rows(settings, model, parts, model_id, repairs)
    pending = PendingBlocks()
    for number, ordinal, first, last, digest in await cache.pending(model_id):
        pending.add(digest, PendingBlock(number, ordinal, first, last, entries[number].source))
    parts.state.use_vectors(model, rows, pending)
    return model_id


def _make_room(directory: Path) -> None:
    """What is not a folder where the engines have theirs goes; what is in one is looked at later."""
    for name in (LEXICAL_NAME, VECTORS_NAME):
        path = directory / name
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            path.unlink()


def _number(fact: str | None) -> int:
    """A number among the catalog's facts; raises `StoreDamaged` when it is none."""
    try:
        return int(fact or 0)
    except ValueError as error:
        raise StoreDamaged("the catalog is damaged") from error


async def _heal_source(
    catalog: Catalog,
    lexicons: Lexicons,
    source: Source,
    expected: Mapping[int, DocumentEntry],
    journal: Journal,
    repairs: list[str],
) -> None:
    """Make the lexicon of a source hold exactly the expected documents."""
    number = await catalog.meta(f"lexicon.{source}")
    if number is None and not expected:
        return
    units = sum(entry.searchable_units for entry in expected.values())
    try:
        await asyncio.to_thread(lexicons.open, source, _number(number))
        lexicon = lexicons.get(source)
        if journal:
            removed = [*journal.removed, *journal.added]
            await asyncio.to_thread(lexicon.stage, removed, ())
            await fill_lexicon(catalog, lexicon, sorted(journal.added & expected.keys()))
        await asyncio.to_thread(lexicon.require, expected.keys(), units)
    except (StoreDamaged, StateError) as damage:
        # An engine that refuses to go on where a killed one stopped is as good as damaged. If it is the disk
        # that refuses, making it anew fails as well.
        note_repair(repairs, f"{damage.message}; the words of {source} were indexed again")
        lexicons.abandon_writers()
        lexicon = await asyncio.to_thread(lexicons.build, source)
        await fill_lexicon(catalog, lexicon, sorted(expected))
        await catalog.set_meta({f"lexicon.{source}": str(lexicons.next_number(source))})
        await asyncio.to_thread(lexicons.take_over, source, lexicon)


async def fill_lexicon(catalog: Catalog, lexicon: Lexicon, numbers: Sequence[int]) -> None:
    """Add documents from the catalog to a lexicon, a bounded number at a time, and commit what is staged."""
    async for part in catalog.contents(numbers):
        await asyncio.to_thread(lexicon.stage, (), part)
    await asyncio.to_thread(lexicon.commit)


async def _rows(
    settings: IndexSettings, model: VectorModel, parts: OpenIndex, model_id: int, repairs: list[str]
) -> VectorRows:
    """All vectors that the live blocks have, around the stored graph where there is a usable one."""
    directory, live = settings.directory / VECTORS_NAME, parts.state.documents
    base: VectorBase | None = None
    try:
        base = await asyncio.to_thread(load_base, directory, parts.store, model, parts.last_number)
    except StoreDamaged as damage:
        note_repair(repairs, f"{damage.message}; it is built again")
        await asyncio.to_thread(drop_base, directory)
    rows = VectorRows(model.dimensions, crossover=settings.crossover, base=base)
    known = np.empty(0, np.int64)
    if base is not None:
        rows.keep(np.isin(base.numbers[:, 0], np.fromiter(live, np.int64, len(live))))
        known = np.sort(_row_keys(base.numbers))
    async for part in parts.catalog.vectors.rows(model, model_id):
        if part:
            await asyncio.to_thread(_append, rows, known, part)
    if dropped := parts.catalog.vectors.dropped:
        note_repair(repairs, f"{dropped} stored vectors were damaged; they are made anew")
    return rows


def _append(rows: VectorRows, known: Numbers, part: Sequence[tuple[int, int, int, bytes]]) -> None:
    numbers = np.array([row[:3] for row in part], np.int64)
    try:
        matrix = np.frombuffer(b"".join(row[3] for row in part), "<f4").reshape(len(part), -1)
        chosen = ~np.isin(_row_keys(numbers), known)
        rows.append([tuple(row) for row in numbers[chosen].tolist()], matrix[chosen])
    except ValueError as error:
        raise StoreDamaged("stored vectors cannot be read") from error


def _row_keys(numbers: Numbers) -> Numbers:
    """One number a block: no two blocks of a document begin with the same unit."""
    return np.asarray(numbers[:, 0] << ORDINAL_BITS | numbers[:, 1], np.int64)


def note_repair(repairs: list[str], text: str) -> None:
    """Say in the log and in status what had to be repaired."""
    _LOG.warning("index repaired: %s", text)
    repairs.append(text)
