"""Text that left the corpus leaves the state, caches keep their bounds, and the graph keeps up (spec §2)."""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from pathlib import Path

import pytest
from index_builders import (
    Model,
    digest,
    document,
    found_by_vector,
    found_by_words,
    open_index,
    put,
    vectors_for,
)

from sidecar.index.agent_index import AgentIndex

SECRET = "xyzzyplugh"


def holders(directory: Path, index: AgentIndex) -> set[str]:
    """What of the state still holds the secret: raw and compressed bytes of every file, and word statistics.

    A word index keeps its terms in a form that no byte search finds, but counts documents that are marked as
    deleted until they have left its files.
    """
    found = {path.name for path in directory.rglob("*") if path.is_file() and holds(path.read_bytes())}
    lexicon = index.view().lexicon("memory")
    if lexicon.units.document_frequency("terms", SECRET) or lexicon.passages.document_frequency(
        "body", SECRET
    ):
        found.add("words")
    return found


def holds(data: bytes) -> bool:
    secret = SECRET.encode()
    if secret in data:
        return True
    start = data.find(b"\x78\x01")
    while start >= 0:
        with contextlib.suppress(zlib.error):
            if secret in zlib.decompressobj().decompress(data[start : start + 4096]):
                return True
        start = data.find(b"\x78\x01", start + 1)
    return False


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


async def with_a_secret(directory: Path, **options: object) -> AgentIndex:
    index = await open_index(directory, **options)
    documents = [document(f"{n}.md", f"word{n}", f"common {n}") for n in range(50)]
    documents.append(document(f"{SECRET}.md", f"{SECRET} text"))
    await put(index, *documents)
    await put(index, document("5.md", f"the word {SECRET} was here"))
    if not {"words", "catalog.sqlite3-wal"} <= holders(directory, index):
        await index.close()
        pytest.fail("the secret is not where this test looks for it")
    return index


@pytest.mark.parametrize("how", ["purge", "maintain"])
async def test_removed_and_edited_text_is_in_no_file_after_a_clean_up(tmp_path: Path, how: str) -> None:
    index = await with_a_secret(tmp_path)
    await index.apply([document("5.md", "word5 anew")], [f"{SECRET}.md"])
    assert {"words", "catalog.sqlite3-wal"} <= holders(tmp_path, index)
    await getattr(index, how)()
    assert holders(tmp_path, index) == set()
    assert found_by_words(index.view(), "common", "anew", SECRET) == {
        ("5.md", 1),
        *((f"{n}.md", 2) for n in range(50) if n != 5),
    }
    await put(index, document("new.md", "newcomer"))
    assert found_by_words(index.view(), "newcomer") == {("new.md", 1)}
    await index.close()
    index = await open_index(tmp_path)
    assert index.repairs == ()
    assert found_by_words(index.view(), "word7", "newcomer") == {("7.md", 1), ("new.md", 1)}
    assert holders(tmp_path, index) == set()
    known = {path.name for path in (tmp_path / "lexical").iterdir()}
    assert known == {"memory-2"}
    await index.close()


async def test_changes_and_searches_go_on_during_a_clean_up(tmp_path: Path) -> None:
    index = await with_a_secret(tmp_path)
    await index.apply(removals=[f"{SECRET}.md"])
    cleaning = asyncio.create_task(index.maintain())
    for number in range(6):
        await put(index, document(f"during{number}.md", f"during{number} busy"))
        assert found_by_words(index.view(), f"during{number}") == {(f"during{number}.md", 1)}
    await index.apply(removals=["during0.md", "7.md"])
    await asyncio.wait_for(cleaning, 20)
    assert found_by_words(index.view(), "busy") == {(f"during{n}.md", 1) for n in range(1, 6)}
    assert found_by_words(index.view(), "word7") == set()
    await index.close()
    index = await open_index(tmp_path)
    assert index.repairs == ()
    await index.close()


async def test_what_is_removed_while_a_word_index_is_written_anew_does_not_come_back(tmp_path: Path) -> None:
    lines = [document(f"{n}.md", f"word{n} common") for n in range(1500)]
    index = await open_index(tmp_path, model=None)
    await index.apply(lines)
    for attempt in range(1, 6):
        await index.apply(removals=[f"{attempt}.md"])
        running, next_one = (tmp_path / "lexical" / f"memory-{n}" for n in (attempt, attempt + 1))
        cleaning = asyncio.create_task(index.maintain())
        async with asyncio.timeout(20):
            while not next_one.exists():  # noqa: ASYNC110
                await asyncio.sleep(0)
        await index.apply(removals=[f"{attempt + 100}.md"])
        overlapped = running.exists()
        await asyncio.wait_for(cleaning, 20)
        assert found_by_words(index.view(), f"word{attempt}", f"word{attempt + 100}", "word7") == {
            ("7.md", 1)
        }
        if overlapped:
            break
    else:
        pytest.fail("no removal fell into a clean-up")
    await index.close()
    index = await open_index(tmp_path, model=None)
    assert index.repairs == ()
    await index.close()


async def test_a_clean_index_is_not_written_again_by_a_clean_up(tmp_path: Path) -> None:
    index = await with_a_secret(tmp_path)
    await index.maintain()
    before = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "lexical").rglob("*.term")}
    await index.maintain()
    assert {p.name: p.stat().st_mtime_ns for p in (tmp_path / "lexical").rglob("*.term")} == before
    await index.close()


async def test_an_unused_vector_is_kept_ten_minutes_for_an_undo_and_then_dropped(tmp_path: Path) -> None:
    clock = Clock()
    index = await open_index(tmp_path, clock=clock)
    await put(index, document("a.md", "one", "two"))
    await put(index, document("a.md", "one"))
    await index.maintain()
    clock.now += 599
    await index.maintain()
    assert len(await index.known_vectors([digest("one"), digest("two")])) == 2
    await index.apply([document("a.md", "one", "two")])
    assert await index.pending_blocks(5) == []
    await index.apply([document("a.md", "one")])
    clock.now += 10
    await index.maintain()
    clock.now += 601
    await index.maintain()
    assert set(await index.known_vectors([digest("one"), digest("two")])) == {digest("one")}
    await index.close()


async def test_a_purge_drops_unused_vectors_and_other_models_at_once(tmp_path: Path) -> None:
    index = await open_index(tmp_path, model=Model("other"))
    await put(index, document("a.md", "one"))
    await index.close()
    index = await open_index(tmp_path)
    await put(index, document("a.md", "one", "two"))
    await put(index, document("a.md", "one"))
    await index.purge()
    assert set(await index.known_vectors([digest("one"), digest("two")])) == {digest("one")}
    await index.close()
    index = await open_index(tmp_path, model=Model("other"))
    assert [text for _, text in await index.pending_blocks(5)] == ["one"]
    await index.close()


async def test_vectors_of_two_models_are_kept_and_no_more(tmp_path: Path) -> None:
    clock = Clock()
    for name in ("first", "second", "third"):
        index = await open_index(tmp_path, model=Model(name), clock=clock)
        await put(index, document("a.md", f"text of {name}"))
        clock.now += 5
        await index.maintain()
        await index.close()
    for name, kept in (("third", 1), ("first", 0)):
        index = await open_index(tmp_path, model=Model(name), clock=clock)
        assert len(await index.known_vectors([digest(f"text of {name}")])) == kept
        await index.close()


@pytest.mark.parametrize("how", ["purge", "maintain"])
async def test_what_was_set_aside_leaves_too(tmp_path: Path, how: str) -> None:
    clock = Clock()
    (tmp_path / "catalog.sqlite3").write_bytes(SECRET.encode() * 1000)
    index = await open_index(tmp_path, clock=clock)
    aside = tmp_path / "catalog.sqlite3.unusable-1"
    assert aside.exists()
    if how == "maintain":
        clock.now = aside.stat().st_mtime + 599
        await index.maintain()
        assert aside.exists()
        clock.now += 2
    await getattr(index, how)()
    assert not aside.exists()
    await index.close()


async def test_a_large_index_gets_its_graph_in_the_background_and_keeps_it_over_a_restart(
    tmp_path: Path,
) -> None:
    index = await open_index(tmp_path, crossover=60)
    documents = [document(f"{n}.md", *(f"line {n} {m}" for m in range(4))) for n in range(40)]
    await index.apply(documents, vectors=vectors_for(documents))
    async with asyncio.timeout(20):
        while not (index.view().vectors and index.view().vectors.uses_graph):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await put(index, document("3.md", "another line"))
    view = index.view()
    assert found_by_vector(view, "another line") == ("3.md", 1)
    assert found_by_vector(view, "line 3 2") is None
    assert found_by_vector(view, "line 4 2") == ("4.md", 3)
    await index.close()
    index = await open_index(tmp_path, crossover=60)
    view = index.view()
    assert index.repairs == ()
    assert view.vectors is not None
    assert view.vectors.uses_graph
    assert view.vectors.count == 157
    assert found_by_vector(view, "another line") == ("3.md", 1)
    assert found_by_vector(view, "line 3 2") is None
    assert found_by_vector(view, "line 4 2") == ("4.md", 3)
    await index.close()


async def test_closing_during_the_building_of_a_graph_is_quick_and_loses_nothing(tmp_path: Path) -> None:
    index = await open_index(tmp_path, crossover=20)
    documents = [document(f"{n}.md", *(f"line {n} {m}" for m in range(10))) for n in range(100)]
    await index.apply(documents, vectors=vectors_for(documents))
    await asyncio.wait_for(index.close(), 10)
    index = await open_index(tmp_path, crossover=20)
    assert index.repairs == ()
    assert found_by_vector(index.view(), "line 42 7") == ("42.md", 8)
    await index.close()
