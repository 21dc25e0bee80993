"""An index that opens before it is known whose vectors it gets (spec §7)."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from index_builders import (
    DIMENSIONS,
    MODEL,
    Model,
    digest,
    document,
    found_by_vector,
    found_by_words,
    open_index,
    put,
    vector,
)

from sidecar.index.agent_index import AgentIndex

SAMPLE = vector("the sample")
WORDS = [f"word{n}" for n in range(12)]


async def awaiting(directory: Path, **options: Any) -> AgentIndex:
    return await open_index(directory, model=None, awaits_model=True, **options)


async def filled(directory: Path, **options: Any) -> None:
    index = await awaiting(directory, **options)
    await index.adopt(MODEL, SAMPLE)
    await put(index, document("a.md", *WORDS))
    await index.close()


async def test_words_work_before_a_model_is_known_and_nothing_is_lost_meanwhile(tmp_path: Path) -> None:
    await filled(tmp_path)
    index = await awaiting(tmp_path)
    assert (index.model, index.view().model, index.view().vectors) == (None, None, None)
    await index.apply([document("b.md", "later")], removals=())
    assert found_by_words(index.view(), "later", "word3") == {("b.md", 1), ("a.md", 4)}
    earlier = index.view()
    await index.adopt(MODEL, SAMPLE)
    assert earlier.vectors is None, "a view stays as it is"
    assert index.repairs == ()
    assert await index.pending_blocks(10) == [(digest("later"), "later")]
    assert found_by_vector(index.view(), "word3") == ("a.md", 4)
    await index.add_vectors({digest("later"): vector("later")})
    assert found_by_vector(index.view(), "later") == ("b.md", 1)


async def test_a_stored_graph_is_used_once_its_model_is_known(tmp_path: Path, eventually: Any) -> None:
    index = await awaiting(tmp_path, crossover=4)
    await index.adopt(MODEL, SAMPLE)
    await put(index, document("a.md", *WORDS))

    async def built() -> bool:
        vectors = index.view().vectors
        return vectors is not None and vectors.uses_graph

    await eventually(built)
    await index.close()
    index = await awaiting(tmp_path, crossover=4)
    await index.adopt(MODEL, SAMPLE)
    view = index.view()
    assert index.repairs == ()
    assert view.vectors is not None
    assert view.vectors.uses_graph
    assert found_by_vector(view, "word7") == ("a.md", 8)
    await index.adopt(MODEL, -SAMPLE)
    view = index.view()
    assert view.vectors is not None
    assert (view.vectors.count, view.vectors.uses_graph) == (0, False)
    assert len(await index.pending_blocks(100)) == len(WORDS)


@pytest.mark.parametrize(("likeness", "kept"), [(0.999, True), (0.9, False)])
async def test_vectors_are_kept_for_as_long_as_the_sample_is_alike(
    tmp_path: Path, likeness: float, kept: bool
) -> None:
    await filled(tmp_path)
    across = vector("other")
    across -= (across @ SAMPLE) * SAMPLE
    across /= np.linalg.norm(across)
    index = await awaiting(tmp_path)
    await index.adopt(MODEL, (likeness * SAMPLE + np.sqrt(1 - likeness**2) * across).astype(np.float32))
    assert index.waiting() == (0 if kept else len(WORDS))
    assert index.waiting(without=[digest("word1"), digest("unknown")]) == (0 if kept else len(WORDS) - 1)
    assert len(await index.pending_blocks(100, skip=[digest("word1")])) == (0 if kept else len(WORDS) - 1)


async def test_stored_vectors_that_cannot_be_of_the_model_are_asked_for_again(tmp_path: Path) -> None:
    await filled(tmp_path)
    with sqlite3.connect(tmp_path / "embeddings.sqlite3") as connection:
        connection.execute("UPDATE vectors SET vector = x'0102' WHERE hash = ?", (digest("word5"),))
    connection.close()
    index = await awaiting(tmp_path)
    await index.adopt(MODEL, SAMPLE)
    assert await index.pending_blocks(10) == [(digest("word5"), "word5")]
    assert found_by_vector(index.view(), "word6") == ("a.md", 7)
    assert len(index.repairs) == 1


async def test_a_change_that_failed_half_way_keeps_the_adopted_model(tmp_path: Path) -> None:
    failing = False

    def step(name: str) -> None:
        if failing and name == "committed":
            raise OSError("broken")

    index = await awaiting(tmp_path, on_step=step)
    await index.adopt(Model("other", DIMENSIONS), SAMPLE)
    await put(index, document("a.md", *WORDS))
    failing = True
    with pytest.raises(OSError, match="broken"):
        await put(index, document("b.md", "second"))
    failing = False
    await put(index, document("c.md", "third"))
    assert index.model == Model("other", DIMENSIONS)
    assert found_by_vector(index.view(), "word2") == ("a.md", 3)
    assert found_by_vector(index.view(), "third") == ("c.md", 1)
    await index.close()
    index = await open_index(tmp_path, model=None)
    assert index.view().vectors is None
