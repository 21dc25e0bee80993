"""However a store is damaged: no wrong answer, no start that fails, none made anew for nothing (spec §7).

The full size: `DAMAGES=50 pytest -m slow tests/index/test_index_damage_ways.py`, which damages each store
50 times in each of the ways.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from index_builders import contents, document, found_by_vector, found_by_words, open_index, put, vector

from sidecar.benchmark.damage import WAYS, Way
from sidecar.index.agent_index import AgentIndex

DOCUMENTS = [document(f"{n}.md", *(f"word{n} line{m} common" for m in range(8))) for n in range(60)]
TEXTS = {block.hash: block.text for doc in DOCUMENTS for block in doc.blocks}
CROSSOVER = 50
STORES = {
    "catalog": ("catalog.sqlite3",),
    "embeddings": ("embeddings.sqlite3",),
    "words": ("lexical/memory-*/*/*", "lexical/memory-*/*/.*.json", "lexical/memory-*/stamp.json"),
    "graph": ("vectors/*",),
}
AT_MOST_AT_A_TIME = int(os.environ.get("DAMAGES", "1"))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state with all stores, closed."""
    return tmp_path_factory.mktemp("sound")


@pytest.fixture
async def state(sound: Path, tmp_path: Path) -> Path:
    """A copy of the sound state."""
    if not any(sound.iterdir()):
        index = await open_index(sound, crossover=CROSSOVER)
        await put(index, *DOCUMENTS[:40])
        await put(index, *DOCUMENTS[30:])
        await index.purge()
        await index.close()
        assert (sound / "vectors" / "base.json").exists()
    return Path(shutil.copytree(sound, tmp_path / "state"))


async def assert_nothing_wrong(index: AgentIndex) -> None:
    """What it finds is right, though it may not have everything."""
    view = index.view()
    known = contents(view)
    assert known.items() <= {doc.path: doc.content_hash for doc in DOCUMENTS}.items()
    for doc in DOCUMENTS:
        if doc.path in known:
            entry = view.paths[doc.path]
            assert [entry.units.lines(n) for n in range(len(entry.units))] == [u.lines for u in doc.units]
    assert found_by_words(view, "common") == {(p, n) for p in known for n in range(1, 9)}
    for number in range(0, 60, 7):
        text = f"word{number} line3 common"
        assert found_by_vector(view, text) in (None, (f"{number}.md", 4))
    for digest, stored in (await index.known_vectors(TEXTS)).items():
        assert np.array_equal(stored, vector(TEXTS[digest]))


async def assert_made_whole(state: Path, store: str) -> None:
    index = await open_index(state, crossover=CROSSOVER)
    await assert_nothing_wrong(index)
    lost = TEXTS.keys() - (await index.known_vectors(TEXTS)).keys()
    if store != "embeddings":
        assert not lost, f"{len(lost)} vectors would be made again"
    missing = [doc for doc in DOCUMENTS if doc.path not in contents(index.view())]
    await index.apply(missing)
    await index.add_vectors({digest: vector(TEXTS[digest]) for digest in lost})
    assert await index.pending_blocks(10) == []
    await assert_nothing_wrong(index)
    assert set(contents(index.view())) == {doc.path for doc in DOCUMENTS}
    assert found_by_vector(index.view(), "word7 line3 common") == ("7.md", 4)
    await index.purge()
    # What only the clean-up could notice was mended then, and what the catalog lost is asked for again.
    await index.apply([doc for doc in DOCUMENTS if doc.path not in contents(index.view())])
    lost = TEXTS.keys() - (await index.known_vectors(TEXTS)).keys()
    # A name that rotted in the index of names can cost the one vector of that name.
    assert len(lost) <= (1 if store == "embeddings" else 0)
    await index.add_vectors({digest: vector(TEXTS[digest]) for digest in lost})
    await assert_nothing_wrong(index)
    await index.close()
    index = await open_index(state, crossover=CROSSOVER)
    assert index.repairs == ()
    await assert_nothing_wrong(index)
    await index.close()


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("store", STORES)
async def test_a_damaged_store_gives_no_wrong_answer_and_is_made_whole_by_one_start(
    state: Path, sound: Path, store: str, way: Way
) -> None:
    for seed in range(AT_MOST_AT_A_TIME):
        random = Random(f"{store} {way.__name__} {seed}")  # noqa: S311 - repeatable
        if seed:
            shutil.rmtree(state)
            shutil.copytree(sound, state)
        files = sorted(path for pattern in STORES[store] for path in state.glob(pattern) if path.is_file())
        victim = random.choice(files)
        way(victim, random)
        try:
            await assert_made_whole(state, store)
        except BaseException as error:
            error.add_note(f"{way.__name__} {victim.relative_to(state)}, seed {seed}")
            raise


def zero_a_page(data: bytearray) -> None:
    data[len(data) // 2 : len(data) // 2 + 4096] = bytes(4096)


def lose_the_end(data: bytearray) -> None:
    del data[-4096:]


def lose_the_beginning(data: bytearray) -> None:
    data[:4096] = b"\xff" * 4096


@pytest.mark.parametrize("loss", [zero_a_page, lose_the_end, lose_the_beginning])
async def test_vectors_on_pages_that_can_still_be_read_are_not_made_again(
    state: Path, loss: Callable[[bytearray], None]
) -> None:
    path = state / "embeddings.sqlite3"
    data = bytearray(path.read_bytes())
    loss(data)
    path.write_bytes(data)
    index = await open_index(state, crossover=CROSSOVER)
    assert index.repairs
    assert len(await index.known_vectors(TEXTS)) > 0.5 * len(TEXTS)
    await assert_nothing_wrong(index)
    await index.close()


async def test_a_catalog_whose_damage_shows_only_at_work_is_made_anew_without_a_restart(state: Path) -> None:
    with sqlite3.connect(state / "catalog.sqlite3") as connection:
        connection.execute("UPDATE contents SET packed = x'00112233'")
    connection.close()
    index = await open_index(state, crossover=CROSSOVER)
    await index.apply(removals=["3.md"])
    await index.purge()
    assert index.times_anew == 1
    await index.apply(DOCUMENTS)
    assert await index.pending_blocks(10) == []
    await assert_nothing_wrong(index)
    await index.close()


async def test_a_rotten_row_of_the_catalog_is_never_believed(state: Path) -> None:
    with sqlite3.connect(state / "catalog.sqlite3") as connection:
        connection.execute("UPDATE documents SET units = zeroblob(length(units)) WHERE document_id = 7")
    connection.close()
    index = await open_index(state, crossover=CROSSOVER)
    assert index.repairs
    await assert_nothing_wrong(index)
    assert (await index.known_vectors(TEXTS)).keys() == TEXTS.keys()
    await index.close()


async def test_a_graph_of_a_later_time_than_a_catalog_that_was_put_back_is_not_believed(
    state: Path, sound: Path
) -> None:
    index = await open_index(state, crossover=CROSSOVER)
    await put(index, *(document(f"later{n}.md", *(f"later {n} {m}" for m in range(40))) for n in range(20)))
    await index.purge()
    await index.close()
    for name in ("catalog.sqlite3", "embeddings.sqlite3"):
        shutil.copy(sound / name, state / name)
    index = await open_index(state, crossover=CROSSOVER)
    await put(index, document("other.md", *(f"other {m}" for m in range(40))))
    await index.close()
    index = await open_index(state, crossover=CROSSOVER)
    assert found_by_vector(index.view(), "other 3") == ("other.md", 4)
    assert found_by_vector(index.view(), "later 0 3") is None
    await index.close()


async def test_an_engine_that_refuses_to_go_on_after_a_kill_is_made_anew(state: Path) -> None:
    def dies(step: str) -> None:
        if step == "announced":
            raise OSError("killed")

    index = await open_index(state, crossover=CROSSOVER, on_step=dies)
    with pytest.raises(OSError, match="killed"):
        await put(index, document("new.md", "newcomer"))
    await index.close()
    (part,) = state.glob("lexical/memory-*/units")
    (part / ".tantivy-writer.lock").unlink(missing_ok=True)
    (part / ".tantivy-writer.lock").mkdir()
    index = await open_index(state, crossover=CROSSOVER)
    assert any("indexed again" in repair for repair in index.repairs)
    assert found_by_words(index.view(), "newcomer") == {("new.md", 1)}
    await index.close()
