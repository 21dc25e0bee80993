"""Damaged, missing and foreign files: the next start repairs them and says so (spec §7)."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from index_builders import MODEL, contents, document, found_by_vector, found_by_words, open_index, put

from sidecar.domain.errors import StateError

pytestmark = pytest.mark.slow

DOCUMENTS = [document(f"{n}.md", f"word{n} common", f"line{n}") for n in range(30)]


def aside(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.unusable-*"))


def missing(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def halved(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def scrambled(path: Path) -> None:
    path.write_bytes(random.Random(3).randbytes(path.stat().st_size))  # noqa: S311


def flipped(path: Path) -> None:
    """One bit in the middle, size and time as before."""
    data, before = bytearray(path.read_bytes()), path.stat()
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


Damage = Callable[[Path], None]
ALL: list[Damage] = [missing, emptied, halved, zeroed, scrambled]


async def prepare(directory: Path, **options: object) -> None:
    index = await open_index(directory, **options)
    await put(index, *DOCUMENTS[:20])
    await put(index, *DOCUMENTS[15:])
    await index.close()


async def assert_whole(directory: Path, **options: object) -> tuple[str, ...]:
    """Opens, finds everything, can be changed, and is quiet at the next start; gives the repairs."""
    index = await open_index(directory, **options)
    repairs = index.repairs
    view = index.view()
    assert set(contents(view)) == {doc.path for doc in DOCUMENTS}
    assert found_by_words(view, "common") == {(doc.path, 1) for doc in DOCUMENTS}
    assert found_by_vector(view, "line7") == ("7.md", 2)
    assert await index.pending_blocks(10) == []
    await put(index, document("extra.md", "extra"))
    await index.apply(removals=["extra.md"])
    await index.close()
    index = await open_index(directory, **options)
    assert index.repairs == ()
    assert found_by_words(index.view(), "common", "extra") == {(doc.path, 1) for doc in DOCUMENTS}
    await index.close()
    return repairs


@pytest.mark.parametrize("damage", [*ALL, flipped])
@pytest.mark.parametrize(
    ("part", "pattern"), [("units", "*.term"), ("passages", "*.fast"), ("units", "meta.json")]
)
async def test_a_damaged_word_index_is_rebuilt_from_the_catalog(
    tmp_path: Path, part: str, damage: Damage, pattern: str
) -> None:
    await prepare(tmp_path)
    damage(max((tmp_path / "lexical" / "memory-1" / part).glob(pattern), key=lambda p: p.stat().st_size))
    repairs = await assert_whole(tmp_path)
    # A flipped bit in the list of segments may hit a number that nothing depends on.
    assert repairs or (damage is flipped and pattern == "meta.json")


@pytest.mark.parametrize(
    "name", ["lexical", "lexical/memory-1", "lexical/memory-1/units", "lexical/memory-1/stamp.json"]
)
async def test_a_missing_word_index_is_rebuilt_from_the_catalog(tmp_path: Path, name: str) -> None:
    await prepare(tmp_path)
    missing(tmp_path / name)
    assert len(await assert_whole(tmp_path)) == 1


@pytest.mark.parametrize("damage", [missing, emptied, zeroed, scrambled])
async def test_a_damaged_list_of_engine_files_is_repaired(tmp_path: Path, damage: Damage) -> None:
    await prepare(tmp_path)
    damage(tmp_path / "lexical" / "memory-1" / "units" / ".managed.json")
    await assert_whole(tmp_path)


async def test_a_word_index_of_another_catalog_is_not_believed(tmp_path: Path) -> None:
    await prepare(tmp_path / "one")
    await prepare(tmp_path / "two")
    shutil.rmtree(tmp_path / "one" / "lexical")
    shutil.copytree(tmp_path / "two" / "lexical", tmp_path / "one" / "lexical")
    assert "other data" in (await assert_whole(tmp_path / "one"))[0]


@pytest.mark.parametrize("damage", [*ALL, flipped])
async def test_a_damaged_catalog_is_set_aside_and_the_index_starts_anew(
    tmp_path: Path, damage: Damage
) -> None:
    await prepare(tmp_path)
    path = tmp_path / "catalog.sqlite3"
    if damage is flipped:
        data = bytearray(path.read_bytes())
        data[4096 : 4096 + 64] = b"\xa5" * 64
        path.write_bytes(data)
    else:
        damage(path)
    index = await open_index(tmp_path)
    assert index.repairs
    assert contents(index.view()) == {}
    assert found_by_words(index.view(), "common") == set()
    assert bool(aside(tmp_path)) == (damage not in (missing, emptied))
    await put(index, *DOCUMENTS)
    await index.close()
    assert await assert_whole(tmp_path) == ()


async def test_terms_that_rotted_inside_a_sound_catalog_are_noticed_when_they_are_needed(
    tmp_path: Path,
) -> None:
    await prepare(tmp_path)
    connection = sqlite3.connect(tmp_path / "catalog.sqlite3")
    connection.execute("UPDATE contents SET packed = x'00112233'")
    connection.commit()
    connection.close()
    missing(tmp_path / "lexical")
    index = await open_index(tmp_path)
    assert index.repairs
    assert contents(index.view()) == {}
    await put(index, *DOCUMENTS)
    await index.close()
    assert await assert_whole(tmp_path) == ()


@pytest.mark.parametrize(
    ("pragma", "said"),
    [
        ("user_version = 99", "newer"),
        ("user_version = 0", "older"),
        ("application_id = 7", "another program"),
    ],
)
async def test_a_catalog_of_another_version_or_program_is_set_aside(
    tmp_path: Path, pragma: str, said: str
) -> None:
    await prepare(tmp_path)
    connection = sqlite3.connect(tmp_path / "catalog.sqlite3")
    connection.execute(f"PRAGMA {pragma}")
    connection.commit()
    connection.close()
    index = await open_index(tmp_path)
    assert said in index.repairs[0]
    await index.close()
    assert (tmp_path / "catalog.sqlite3.unusable-1").exists()


async def test_at_most_two_unusable_catalogs_are_kept_the_newest(tmp_path: Path) -> None:
    for number in range(1, 5):
        (tmp_path / "catalog.sqlite3").write_bytes(b"not a database %d" % number * 100)
        index = await open_index(tmp_path)
        await index.close()
    kept = aside(tmp_path)
    assert kept == ["catalog.sqlite3.unusable-3", "catalog.sqlite3.unusable-4"]
    assert (tmp_path / kept[1]).read_bytes().startswith(b"not a database 4")


async def test_a_folder_or_link_in_place_of_the_catalog_is_set_aside_unread(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"precious")
    state = tmp_path / "state"
    state.mkdir()
    (state / "catalog.sqlite3").symlink_to(elsewhere)
    await (await open_index(state)).close()
    assert elsewhere.read_bytes() == b"precious"
    (state / "catalog.sqlite3").unlink()
    (state / "catalog.sqlite3").mkdir()
    index = await open_index(state)
    assert index.repairs
    await index.close()


async def test_a_state_directory_that_cannot_be_used_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StateError):
        await open_index(tmp_path / "file" / "state")


@pytest.mark.parametrize("damage", [missing, halved, scrambled, flipped])
@pytest.mark.parametrize("pattern", ["*.graph", "*.vectors", "*.numbers", "base.json"])
async def test_a_damaged_vector_graph_is_never_loaded_and_costs_no_embedding(
    tmp_path: Path, damage: Damage, pattern: str
) -> None:
    """BR-53."""
    options: dict[str, object] = {"model": MODEL, "crossover": 20}
    await prepare(tmp_path, **options)
    index = await open_index(tmp_path, **options)
    await index.purge()
    await index.close()
    (target,) = (tmp_path / "vectors").glob(pattern)
    damage(target)
    repairs = await assert_whole(tmp_path, **options)
    assert repairs or (target.name == "base.json" and damage in (missing, flipped))
