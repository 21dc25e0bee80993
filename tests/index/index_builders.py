"""Documents, vectors and indexes for the tests of `sidecar.index`: small, real, and made from plain words."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from sidecar.domain.corpus import NO_ANNOTATIONS, Annotations, FileStamp
from sidecar.domain.memory import LineRange, Source
from sidecar.index.agent_index import AgentIndex
from sidecar.index.documents import IndexBlock, IndexDocument, IndexPassage, IndexUnit, LexicalLayout
from sidecar.index.view import View

LAYOUT = LexicalLayout(stamp="1", unit_fields=("terms", "head"), passage_fields=("body",))
DIMENSIONS = 16


class Model(msgspec.Struct, frozen=True):
    name: str = "test-model"
    dimensions: int = DIMENSIONS


MODEL = Model()


def digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def vector(text: str) -> NDArray[np.float32]:
    seed = int.from_bytes(digest(text)[:8], "big")
    row = np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
    return row / np.linalg.norm(row)


def document(
    path: str,
    *lines: str,
    source: Source = "memory",
    annotations: Annotations = NO_ANNOTATIONS,
    inode: int = 1,
) -> IndexDocument:
    """A file with one unit and one block a line; the terms are the words of the line."""
    units = tuple(
        IndexUnit(
            lines=LineRange(number, number),
            kind="bullet",
            section=0,
            group=0,
            size=len(line),
            annotations=annotations,
            fields={"terms": line, "head": path},
        )
        for number, line in enumerate(lines, 1)
    )
    return IndexDocument(
        path=path,
        source=source,
        stamp=FileStamp(1, 2, 3, inode, 5),
        content_hash=digest("\n".join(lines)),
        day=None,
        origin="owner",
        settled=True,
        notes=(),
        units=units,
        passages=(IndexPassage(first_unit=0, unit_count=len(units), fields={"body": " ".join(lines)}),),
        blocks=tuple(
            IndexBlock(first_unit=ordinal, last_unit=ordinal, hash=digest(line), text=line)
            for ordinal, line in enumerate(lines)
        ),
    )


def vectors_for(documents: Iterable[IndexDocument]) -> dict[bytes, NDArray[np.float32]]:
    return {block.hash: vector(block.text) for doc in documents for block in doc.blocks}


opened: list[AgentIndex] = []


async def open_index(directory: Path, **options: object) -> AgentIndex:
    """An index that is closed after the test at the latest."""
    index = await AgentIndex.open(directory, **{"model": MODEL, "layout": LAYOUT, **options})  # type: ignore[arg-type]
    opened.append(index)
    return index


async def close_all() -> None:
    """Close what a failed test left open: its threads would keep the test run from ending."""
    while opened:
        await opened.pop().close()


async def put(index: AgentIndex, *documents: IndexDocument) -> None:
    await index.apply(documents, vectors=vectors_for(documents))


def found_by_words(view: View, *words: str, source: Source = "memory") -> set[tuple[str, int]]:
    """(path, line) of every unit that holds one of the words; files must agree."""
    lexicon = view.lexicon(source)
    keys = lexicon.units.search([("terms", word, 1.0) for word in words], 1000).keys
    places = [view.locate(int(key)) for key in keys]
    assert None not in places, "the engine knows a document that the view does not"
    found = {(entry.path, entry.units.lines(ordinal).start) for entry, ordinal in filter(None, places)}
    files = lexicon.passages.search([("body", word, 1.0) for word in words], 1000).keys
    located = {place[0].path for key in files if (place := view.locate(int(key)))}
    assert located == {path for path, _ in found}
    return found


def found_by_vector(view: View, text: str) -> tuple[str, int] | None:
    """(path, line) of the block with exactly this text."""
    assert view.vectors is not None
    rows, scores = view.vectors.search(vector(text), 1)
    if not len(rows) or scores[0] < 0.999:
        return None
    entry = view.documents[int(view.vectors.document_id[rows[0]])]
    return entry.path, entry.units.lines(int(view.vectors.first_unit[rows[0]])).start


def nearest(view: View, text: str, most: int) -> set[str]:
    """The paths of the `most` nearest blocks, or of as many as there are."""
    assert view.vectors is not None
    rows, _ = view.vectors.search(vector(text), most)
    return {view.documents[int(view.vectors.document_id[row])].path for row in rows}


def contents(view: View) -> dict[str, bytes]:
    """Path -> content hash of everything live."""
    return {path: entry.content_hash for path, entry in view.paths.items()}
