"""What a user of the index may rely on: generations, snapshots, restarts and re-embedding."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_builders import (
    LAYOUT,
    Model,
    close_all,
    contents,
    digest,
    document,
    found_by_vector,
    found_by_words,
    open_index,
    put,
    vector,
    vectors_for,
)

from sidecar.domain.corpus import Annotations, FileStamp
from sidecar.domain.errors import StateError
from sidecar.domain.memory import LineRange
from sidecar.index.documents import IndexBlock, IndexPassage


def engine_files(directory: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(directory)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in (directory / "lexical").rglob("*")
        if path.is_file()
    }


def everything_in(directory: Path) -> list[Path]:
    return [directory, *directory.rglob("*")]


async def test_an_applied_document_is_found_by_its_words_and_by_its_meaning(tmp_path: Path) -> None:
    index = await open_index(tmp_path)
    await put(index, document("memory/a.md", "alpha beta", "gamma delta"), document("b.md", "beta"))
    view = index.view()
    assert found_by_words(view, "beta") == {("memory/a.md", 1), ("b.md", 1)}
    assert found_by_words(view, "delta") == {("memory/a.md", 2)}
    assert found_by_vector(view, "gamma delta") == ("memory/a.md", 2)
    totals = view.total("memory")
    assert (totals.files, totals.units, totals.blocks, totals.pending) == (2, 3, 3, 0)
    await index.close()


async def test_a_changed_file_is_found_by_its_new_text_only(tmp_path: Path) -> None:
    index = await open_index(tmp_path)
    await put(index, document("a.md", "before"))
    await put(index, document("a.md", "after"))
    assert found_by_words(index.view(), "before", "after") == {("a.md", 1)}
    assert found_by_words(index.view(), "before") == set()
    assert found_by_vector(index.view(), "before") is None
    await index.close()


async def test_a_removed_file_is_found_no_more_and_its_path_can_come_back(tmp_path: Path) -> None:
    index = await open_index(tmp_path)
    await put(index, document("a.md", "one"), document("b.md", "two"))
    await index.apply(removals=["a.md", "never-there.md"])
    assert found_by_words(index.view(), "one", "two") == {("b.md", 1)}
    assert found_by_vector(index.view(), "one") is None
    await put(index, document("a.md", "one"))
    assert found_by_words(index.view(), "one") == {("a.md", 1)}
    await index.close()


async def test_a_view_that_is_kept_never_changes(tmp_path: Path) -> None:
    index = await open_index(tmp_path)
    await put(index, document("a.md", "old words"))
    view = index.view()
    await put(index, document("a.md", "new words"))
    await index.apply(removals=["a.md"])
    await index.purge()
    assert found_by_words(view, "old") == {("a.md", 1)}
    assert found_by_vector(view, "old words") == ("a.md", 1)
    assert index.view().generation > view.generation
    assert not index.view().paths
    await index.close()


async def test_sources_are_searched_apart(tmp_path: Path) -> None:
    index = await open_index(tmp_path)
    await put(index, document("a.md", "shared"), document("s.jsonl", "shared", source="sessions"))
    assert found_by_words(index.view(), "shared") == {("a.md", 1)}
    assert found_by_words(index.view(), "shared", source="sessions") == {("s.jsonl", 1)}
    await index.close()


async def test_a_file_that_changes_its_source_is_found_in_the_new_one_only(tmp_path: Path) -> None:
    index = await open_index(tmp_path)
    await put(index, document("a", "words"))
    await put(index, document("a", "words", source="sessions"))
    assert found_by_words(index.view(), "words") == set()
    assert found_by_words(index.view(), "words", source="sessions") == {("a", 1)}
    await index.close()


async def test_a_touched_file_gets_its_new_stamp_without_any_engine_work(tmp_path: Path) -> None:
    index = await open_index(tmp_path)
    await put(index, document("a.md", "text"))
    before = engine_files(tmp_path)
    stamp = FileStamp(-5, 2**70, 7, 2**64 - 1, 9)
    await index.apply(restamps=[("a.md", stamp, False), ("gone.md", stamp, True)])
    assert engine_files(tmp_path) == before
    await index.close()
    index = await open_index(tmp_path)
    entry = index.view().paths["a.md"]
    assert (entry.stamp, entry.settled) == (stamp, False)
    assert found_by_words(index.view(), "text") == {("a.md", 1)}
    await index.close()


async def test_opening_an_unchanged_index_again_does_no_indexing_work(tmp_path: Path) -> None:
    index = await open_index(tmp_path)
    await put(index, *(document(f"{n}.md", f"word{n}", "common") for n in range(20)))
    await put(index, document("3.md", "changed"))
    await index.close()
    before = engine_files(tmp_path)
    index = await open_index(tmp_path)
    assert index.repairs == ()
    assert engine_files(tmp_path) == before
    assert found_by_words(index.view(), "word4", "changed") == {("4.md", 1), ("3.md", 1)}
    assert found_by_vector(index.view(), "changed") == ("3.md", 1)
    assert await index.pending_blocks(10) == []
    await index.close()


async def test_everything_about_a_document_survives_a_restart(tmp_path: Path) -> None:
    marked = Annotations(importance=4, triggers=("t",), project_keys=("k",), malformed=True)
    plain = document("notes/ünï\udcff.md", "first", "second", inode=2**64 - 1)
    units = (
        msgspec.structs.replace(plain.units[0], annotations=marked, size=33, group=-1, kind="row", section=2),
        msgspec.structs.replace(plain.units[1], lines=LineRange(2, 2, (600, 1200)), fields={}),
    )
    odd = msgspec.structs.replace(
        plain, units=units, day=730_000, origin="untrusted", settled=False, notes=("cut", "binary")
    )
    index = await open_index(tmp_path)
    await put(index, odd)
    written = index.view().paths[odd.path]
    await index.close()
    index = await open_index(tmp_path)
    assert index.repairs == ()
    read = index.view().paths[odd.path]
    assert read == written
    table = read.units
    assert (table.size(0), table.group(0), table.kind(0), table.section(0)) == (33, -1, "row", 2)
    assert (table.annotations(0), table.annotations(1).malformed) == (marked, False)
    assert (table.lines(0), table.lines(1)) == (LineRange(1, 1), LineRange(2, 2, (600, 1200)))
    assert (read.day, read.origin, read.notes) == (730_000, "untrusted", ("cut", "binary"))
    assert found_by_words(index.view(), "first") == {(odd.path, 1)}
    assert index.view().lexicon("memory").units.count == 1
    await index.close()


async def test_only_text_that_is_new_waits_for_a_vector(tmp_path: Path) -> None:
    index = await open_index(tmp_path)
    await put(index, document("a.md", "kept line", "old line"))
    edited = document("a.md", "an inserted line", "kept line", "old line changed")
    await index.apply([edited])
    waiting = await index.pending_blocks(10)
    assert waiting == [(digest(t), t) for t in ("an inserted line", "old line changed")]
    assert index.view().total("memory").pending == 2
    assert found_by_vector(index.view(), "kept line") == ("a.md", 2)
    assert await index.pending_blocks(1) == waiting[:1]
    await index.add_vectors({key: vector(text) for key, text in waiting})
    assert found_by_vector(index.view(), "an inserted line") == ("a.md", 1)
    assert index.view().total("memory").pending == 0
    await index.close()


async def test_a_renamed_file_is_not_embedded_again(tmp_path: Path) -> None:
    index = await open_index(tmp_path)
    await put(index, document("a.md", "one", "two"))
    await index.apply([document("b.md", "one", "two")], ["a.md"])
    assert await index.pending_blocks(10) == []
    assert found_by_vector(index.view(), "two") == ("b.md", 2)
    assert set(await index.known_vectors([digest("one"), digest("three")])) == {digest("one")}
    await index.close()


async def test_one_vector_serves_equal_text_in_several_files(tmp_path: Path) -> None:
    index = await open_index(tmp_path)
    await index.apply([document("a.md", "same"), document("b.md", "same")])
    assert index.view().total("memory").pending == 2
    assert await index.pending_blocks(10) == [(digest("same"), "same")]
    await index.apply(removals=["a.md"])
    assert index.view().total("memory").pending == 1
    await index.add_vectors({digest("same"): vector("same")})
    assert found_by_vector(index.view(), "same") == ("b.md", 1)
    await index.close()


async def test_another_model_makes_every_block_wait_while_words_keep_working(tmp_path: Path) -> None:
    index = await open_index(tmp_path)
    await put(index, document("a.md", "one", "two"))
    await index.close()
    index = await open_index(tmp_path, model=Model("other", 8))
    assert index.repairs == ()
    assert found_by_words(index.view(), "two") == {("a.md", 2)}
    assert [text for _, text in await index.pending_blocks(10)] == ["one", "two"]
    assert index.view().vectors is not None
    assert index.view().vectors.count == 0
    await index.close()
    index = await open_index(tmp_path)
    assert await index.pending_blocks(10) == []
    assert found_by_vector(index.view(), "one") == ("a.md", 1)
    await index.close()


async def test_without_a_model_words_alone_are_indexed(tmp_path: Path) -> None:
    index = await open_index(tmp_path, model=None)
    await index.apply([document("a.md", "one")], vectors={digest("one"): vector("one")})
    assert index.view().vectors is None
    assert index.view().total("memory").pending == 0
    assert await index.pending_blocks(5) == []
    assert await index.known_vectors([digest("one")]) == {}
    assert found_by_words(index.view(), "one") == {("a.md", 1)}
    await index.close()


async def test_another_preparation_asks_for_every_document_again_and_keeps_the_vectors(
    tmp_path: Path,
) -> None:
    index = await open_index(tmp_path)
    await put(index, document("a.md", "one"))
    await index.close()
    layout = msgspec.structs.replace(LAYOUT, stamp="2", unit_fields=("terms", "head", "more"))
    index = await open_index(tmp_path, layout=layout)
    assert contents(index.view()) == {}
    assert found_by_words(index.view(), "one") == set()
    await index.apply([document("a.md", "one")])
    assert await index.pending_blocks(10) == []
    assert found_by_words(index.view(), "one") == {("a.md", 1)}
    await index.close()
    index = await open_index(tmp_path, layout=layout)
    assert (index.repairs, list(contents(index.view()))) == ((), ["a.md"])
    await index.close()


async def test_a_document_that_cannot_be_stored_is_refused_before_anything_changes(tmp_path: Path) -> None:
    index = await open_index(tmp_path)
    await put(index, document("a.md", "one"))
    view = index.view()
    good = document("b.md", "two")
    strange = IndexPassage(first_unit=0, unit_count=1, fields={"nonsense": "x"})
    unknown = msgspec.structs.replace(good, passages=(strange,))
    beyond = msgspec.structs.replace(good, passages=(IndexPassage(first_unit=0, unit_count=2, fields={}),))
    block = IndexBlock(first_unit=0, last_unit=1, hash=b"h", text="t")
    outside = msgspec.structs.replace(good, blocks=(block,))
    for bad in ([unknown], [beyond], [outside], [good, good]):
        with pytest.raises(ValueError, match=r"layout|passage|block|twice"):
            await index.apply(bad)
    with pytest.raises(ValueError, match="vector"):
        await index.apply([good], vectors={digest("two"): np.ones(3, np.float32)})
    with pytest.raises(ValueError, match="vector"):
        await index.add_vectors({digest("two"): np.full(16, np.nan, np.float32)})
    assert index.view() is view
    await index.close()


async def test_a_cancelled_change_is_still_carried_out_whole(tmp_path: Path) -> None:
    reached = asyncio.Event()
    loop = asyncio.get_running_loop()
    index = await open_index(tmp_path, on_step=lambda _: loop.call_soon_threadsafe(reached.set))
    change = asyncio.create_task(put(index, document("a.md", "one")))
    await asyncio.wait_for(reached.wait(), 10)
    change.cancel()
    with pytest.raises(asyncio.CancelledError):
        await change
    await index.close()
    index = await open_index(tmp_path)
    assert index.repairs == ()
    assert found_by_words(index.view(), "one") == {("a.md", 1)}
    await index.close()


async def test_changes_asked_for_at_once_are_all_made(tmp_path: Path) -> None:
    index = await open_index(tmp_path)
    await asyncio.gather(*(put(index, document(f"{n}.md", f"word{n}", "all")) for n in range(8)))
    assert found_by_words(index.view(), "all") == {(f"{n}.md", 2) for n in range(8)}
    await index.close()


async def test_a_closed_index_refuses_changes_and_closes_twice(tmp_path: Path) -> None:
    index = await open_index(tmp_path)
    await index.close()
    await index.close()
    for call in (
        put(index, document("a.md", "one")),
        index.known_vectors([b"x"]),
        index.pending_blocks(1),
        index.purge(),
    ):
        with pytest.raises(StateError):
            await call


async def test_nobody_else_may_read_the_files_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        index = await open_index(tmp_path / "state", crossover=4)
        await put(index, *(document(f"{n}.md", f"word{n}", "x") for n in range(6)))
        await index.apply(removals=["1.md"])
        await index.maintain()
        await index.close()
    finally:
        os.umask(before)
    modes = {str(path): stat.S_IMODE(path.stat().st_mode) for path in everything_in(tmp_path / "state")}
    assert len(modes) > 10
    open_to_others = {name: oct(mode) for name, mode in modes.items() if mode & 0o077}
    assert open_to_others == {}


LINES = st.lists(st.sampled_from(["red", "green", "blue", "red green"]), min_size=0, max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.dictionaries(st.sampled_from("abc"), LINES, min_size=1)),
        st.tuples(st.just("remove"), st.sets(st.sampled_from("abc"), min_size=1)),
        st.tuples(st.sampled_from(["reopen", "maintain", "purge"]), st.none()),
    ),
    max_size=7,
)


@settings(max_examples=12)
@given(steps=STEPS)
def test_after_any_changes_exactly_the_live_text_is_found(steps: list[tuple[str, object]]) -> None:
    async def run(directory: Path) -> None:
        try:
            await follow(directory)
        finally:
            await close_all()

    async def follow(directory: Path) -> None:
        index = await open_index(directory)
        model: dict[str, list[str]] = {}
        for kind, given_ in steps:
            if isinstance(given_, dict):
                documents = [document(path, *lines) for path, lines in given_.items()]
                await index.apply(documents, vectors=vectors_for(documents))
                model |= given_
            elif isinstance(given_, set):
                await index.apply(removals=given_)
                model = {path: lines for path, lines in model.items() if path not in given_}
            elif kind == "reopen":
                await index.close()
                index = await open_index(directory)
                assert index.repairs == ()
            else:
                await getattr(index, kind)()
            for word in ("red", "green", "blue"):
                expected = {
                    (path, number)
                    for path, lines in model.items()
                    for number, line in enumerate(lines, 1)
                    if word in line.split()
                }
                assert found_by_words(index.view(), word) == expected
            vectors = index.view().vectors
            assert vectors is not None
            assert vectors.count == sum(map(len, model.values()))
        await index.close()

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(run(Path(directory)))
