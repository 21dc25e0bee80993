"""What is on disk is what is found: transcripts that grow, change, vanish, and turn out to be machinery."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from transcript_follower import Followed, Only, shown

from sidecar.domain.memory import Found, NotFound
from sidecar.embedding.guarded import GuardedEmbedder
from sidecar.embedding.local import LocalEmbedder
from sidecar.embedding.offloaded import OffloadedEmbedder
from sidecar.service import session_search, transcript_change, transcript_feed
from sidecar.text import transcript_chunks

pytestmark = pytest.mark.slow

STAMP = "2026-01-02T03-04-05.678Z"
Open = Callable[..., Awaitable[Followed]]


@pytest.fixture
async def follow(tmp_path: Path) -> AsyncIterator[Open]:
    """`await follow(...)`: serve the transcripts of this test; closed at its end."""
    opened: list[Followed] = []

    async def start(**options: Any) -> Followed:
        opened.append(await Followed.open(tmp_path, **options))
        return opened[-1]

    yield start
    for followed in opened:
        await followed.close()


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript_chunks, "CHUNK_BYTES", 600)
    monkeypatch.setattr(transcript_chunks, "CHUNK_CHARACTERS", 200)
    monkeypatch.setattr(transcript_feed, "STEP_CHUNKS", 4)


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file counts as large: one that grew is proven by its last chunk."""
    monkeypatch.setattr(transcript_change, "WHOLE_BYTES", 0)


@pytest.mark.usefixtures("small_chunks")
async def test_an_append_is_found_and_leaves_all_chunks_but_the_last_alone(
    follow: Open, say: Any, jsonl: Any
) -> None:
    followed = await follow()
    path = followed.sessions / "a.jsonl"
    path.write_bytes(jsonl(*[say("user", f"talk number{n} of many") for n in range(30)]))
    await followed.runtime.refresh()
    before = followed.documents()
    assert len(before) > 5
    with path.open("ab") as file:
        file.write(jsonl(say("assistant", "the zeppelin lands")))
    await followed.runtime.refresh()
    after = followed.documents()
    last = max(before.values())
    assert {name: number for name, number in before.items() if number != last}.items() <= after.items()
    (hit,) = await followed.find("zeppelin", most=1)
    assert (hit.path, hit.lines.end) == ("sessions/main/a.jsonl", 31)
    assert [h.lines.start for h in await followed.find("number7", most=1)] <= [8]


async def test_half_a_last_line_is_found_once_it_is_whole(follow: Open, say: Any, jsonl: Any) -> None:
    followed = await follow()
    path = followed.sessions / "a.jsonl"
    whole = jsonl(say("user", "the first"), say("user", "the marmot whistles"))
    path.write_bytes(whole[:-12])
    await followed.runtime.refresh()
    assert not [hit for hit in await followed.find("marmot") if "marmot" in hit.excerpt]
    assert followed.text("a.jsonl") == "User: the first"
    with path.open("ab") as file:
        file.write(whole[-12:])
    await followed.runtime.refresh()
    assert followed.text("a.jsonl") == "User: the first\nUser: the marmot whistles"
    assert (await followed.find("marmot"))[0].lines.end == 2


@pytest.mark.usefixtures("small_chunks")
async def test_a_transcript_that_grows_while_it_is_read_is_never_shown_wrongly(
    follow: Open, say: Any, jsonl: Any
) -> None:
    followed = await follow()
    path = followed.sessions / "a.jsonl"
    path.write_bytes(b"")
    done = asyncio.Event()

    async def write() -> None:
        for number in range(120):
            record = jsonl(say("user", f"entry{number} says value{number}"))
            with path.open("ab", buffering=0) as file:
                file.write(record[: number % len(record)])
                await asyncio.sleep(0)
                file.write(record[number % len(record) :])
        done.set()

    task = asyncio.create_task(write())
    while not done.is_set():
        await followed.runtime.refresh()
        for hit in await followed.find("entry", most=5):
            line = hit.lines.start - 1
            assert hit.excerpt.startswith(f"User: entry{line} says value{line}")
    await task
    await followed.runtime.refresh()
    for number in (0, 60, 119):
        assert (await followed.find(f"value{number}", most=1))[0].excerpt.count(f"value{number}") == 1
    lines = followed.text("a.jsonl", "L1-L120").split("\n")
    assert lines == [f"User: entry{n} says value{n}" for n in range(120)]


async def test_a_change_within_with_its_time_put_back_is_never_shown_and_then_found(
    follow: Open, say: Any, jsonl: Any
) -> None:
    followed = await follow()
    path = followed.sessions / "a.jsonl"
    path.write_bytes(jsonl(say("user", "the marmot whistles"), say("user", "the lynx waits")))
    await followed.runtime.refresh()
    reference = (await followed.find("marmot"))[0].reference
    status = path.stat()
    path.write_bytes(path.read_bytes().replace(b"marmot", b"jackal"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    hits, told = await followed.search("marmot lynx")
    assert hits == ()
    assert told == ["1 transcript changed after being indexed; its hits were left out"]
    assert isinstance(followed.get("a.jsonl", reference.fragment, revision=reference.revision), NotFound)
    await followed.runtime.refresh()
    assert "jackal" in (await followed.find("jackal"))[0].excerpt
    assert isinstance(followed.get("a.jsonl", reference.fragment, revision=reference.revision), NotFound)


@pytest.mark.usefixtures("small_chunks", "trusting")
async def test_a_change_hidden_by_growth_is_never_shown_and_is_found_after_a_search_met_it(
    follow: Open, say: Any, jsonl: Any
) -> None:
    followed = await follow()
    path = followed.sessions / "a.jsonl"
    path.write_bytes(
        jsonl(say("user", "the marmot whistles"), *[say("user", f"filler {n}") for n in range(40)])
    )
    await followed.runtime.refresh()
    with path.open("r+b") as file:
        data = file.read()
        file.seek(data.index(b"marmot"))
        file.write(b"jackal")
        file.seek(0, os.SEEK_END)
        file.write(jsonl(say("user", "one more line")))
    await followed.runtime.refresh()
    assert await followed.find("more line")
    hits, told = await followed.search("marmot", least=0.2)
    assert hits == ()
    assert told
    await followed.runtime.refresh()
    assert "jackal" in (await followed.find("jackal", most=1))[0].excerpt
    assert await followed.find("marmot", least=0.2) == ()


@pytest.mark.usefixtures("small_chunks")
async def test_a_transcript_cut_short_replaced_or_removed_leaves_nothing_behind(
    follow: Open, say: Any, jsonl: Any
) -> None:
    followed = await follow()
    path = followed.sessions / "a.jsonl"
    records = [say("user", f"marmot{n} sleeps") for n in range(40)]
    path.write_bytes(jsonl(*records))
    await followed.runtime.refresh()
    path.write_bytes(jsonl(*records[:3]))
    await followed.runtime.refresh()
    assert (await followed.find("marmot2", most=1))[0].lines.end == 3
    assert not [hit for hit in await followed.find("marmot30") if "marmot30" in hit.excerpt]
    other = followed.sessions / "other.tmp"
    other.write_bytes(jsonl(*[say("user", f"lynx{n} sleeps") for n in range(20)]))
    other.replace(path)
    await followed.runtime.refresh()
    assert not [hit for hit in await followed.find("marmot1") if "marmot" in hit.excerpt]
    assert "lynx19" in (await followed.find("lynx19", most=1))[0].excerpt
    path.rename(followed.sessions / f"a.jsonl.deleted.{STAMP}")
    await followed.runtime.refresh()
    assert followed.documents() == {}
    assert await followed.find("lynx19") == ()


@pytest.mark.parametrize("archives", [False, True])
async def test_reset_archives_are_found_where_they_are_asked_for(
    follow: Open, say: Any, jsonl: Any, archives: bool
) -> None:
    followed = await follow(archives=archives)
    name = f"a.jsonl.reset.{STAMP}"
    (followed.sessions / name).write_bytes(jsonl(say("user", "the tapir")))
    (followed.sessions / f"{name}.zst").write_bytes(b"packed")
    await followed.runtime.refresh()
    assert [hit.path for hit in await followed.find("tapir")] == (
        [f"sessions/main/{name}"] if archives else []
    )
    assert followed.text(name) == ("User: the tapir" if archives else "")


@pytest.mark.usefixtures("small_chunks")
async def test_a_start_over_unchanged_transcripts_reads_none_of_them(
    follow: Open, say: Any, jsonl: Any, eventually: Any
) -> None:
    followed = await follow()
    path = followed.sessions / "a.jsonl"
    path.write_bytes(jsonl(*[say("user", f"talk {n}") for n in range(30)]))
    os.utime(path, ns=(1, 1))

    async def settled() -> bool:
        return await _reads(followed) == 0

    await eventually(settled)
    documents = followed.documents()
    await followed.close()
    again = await follow()
    assert await _reads(again) == 0
    assert again.documents() == documents


async def _reads(followed: Followed) -> int:
    before = followed.runtime.work.files_read
    await followed.runtime.refresh()
    return followed.runtime.work.files_read - before


@pytest.mark.usefixtures("small_chunks")
async def test_a_long_transcript_whose_indexing_was_cut_off_is_taken_up_again(
    follow: Open, say: Any, jsonl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript_change, "is_settled", lambda _: True)
    followed = await follow()
    records = [say("user", f"talk number{n} of many") for n in range(60)]
    (followed.sessions / "a.jsonl").write_bytes(jsonl(*records))
    steps = 0

    def fail(step: str) -> None:
        nonlocal steps
        steps += step == "visible"
        if steps == 2:
            raise OSError("cut off")

    monkeypatch.setattr(followed.runtime.index, "_on_step", fail)
    with pytest.raises(OSError, match="cut off"):
        await followed.runtime.refresh()
    assert 0 < len(followed.documents()) < 20
    await followed.close()
    again = await follow()
    await again.runtime.refresh()
    for number in (0, 30, 59):
        assert f"number{number} " in (await again.find(f"number{number}", most=1))[0].excerpt


@pytest.mark.usefixtures("small_chunks")
async def test_a_file_that_turns_out_to_be_machinery_is_forgotten_whole(
    follow: Open, say: Any, jsonl: Any
) -> None:
    followed = await follow()
    path = followed.sessions / "a.jsonl"
    talk = [say("user", f"marmot{n} sleeps") for n in range(40)]
    path.write_bytes(jsonl(*talk))
    await followed.runtime.refresh()
    assert await followed.find("marmot7")
    with path.open("ab") as file:
        file.write(jsonl({"type": "custom", "runId": "dreaming-narrative-1"}, *talk))
    await followed.runtime.refresh()
    assert await followed.find("marmot7") == ()
    assert isinstance(followed.get("a.jsonl"), NotFound)
    with path.open("ab") as file:
        file.write(jsonl(*talk))
    await followed.runtime.refresh()
    assert await followed.find("marmot7") == ()
    assert len(followed.documents()) == 1


async def test_the_gateways_store_decides_as_it_is_now(follow: Open, say: Any, jsonl: Any) -> None:
    followed = await follow()
    (followed.sessions / "a.jsonl").write_bytes(jsonl(say("user", "the marmot sleeps")))
    store = followed.sessions / "sessions.json"
    for key, found in (
        ("agent:main:main", True),
        ("agent:main:cron:job:run:1", False),
        ("agent:main:main", True),
    ):
        store.write_text(
            json.dumps({key: {"sessionId": "a"}, "junk": 7, "agent:main:other": {"sessionId": 5}})
        )
        await followed.runtime.refresh()
        await followed.runtime.refresh()
        assert bool(await followed.find("marmot")) == found, key
    store.write_text("{half written")
    await followed.runtime.refresh()
    assert await followed.find("marmot")


async def test_a_transcript_of_the_system_alone_appears_once_a_person_speaks(
    follow: Open, say: Any, jsonl: Any
) -> None:
    followed = await follow()
    path = followed.sessions / "a.jsonl"
    internal = {"kind": "internal_system", "sourceTool": "other"}
    path.write_bytes(jsonl(say("user", "the gryphon wakes", provenance=internal)))
    await followed.runtime.refresh()
    assert await followed.find("gryphon") == ()
    with path.open("ab") as file:
        file.write(jsonl(say("user", "hello there")))
    await followed.runtime.refresh()
    assert (await followed.find("gryphon"))[0].lines.start == 1


async def test_lines_before_a_reset_are_all_that_a_narrowed_caller_sees(
    follow: Open, say: Any, jsonl: Any
) -> None:
    followed = await follow()
    (followed.sessions / "a.jsonl").write_bytes(
        jsonl(
            say("user", "old marmot"), say("assistant", "yes"), {"type": "reset"}, say("user", "new marmot")
        )
    )
    await followed.runtime.refresh()
    narrowed = Only("a", before=3)
    assert [hit.excerpt for hit in await followed.find("marmot", narrowed)] == [
        "User: old marmot\nAssistant: yes"
    ]
    assert narrowed.cutoffs == {"sessions/main/a.jsonl": 3}
    assert followed.text("a.jsonl", None, narrowed) == "User: old marmot\nAssistant: yes"
    assert isinstance(followed.get("a.jsonl", "L4-L4", narrowed), NotFound)
    assert followed.text("a.jsonl", "L4-L4") == "User: new marmot"
    assert len(await followed.find("marmot")) == 2


async def test_hidden_transcripts_shape_nothing_of_what_is_seen(
    follow: Open, tmp_path: Path, say: Any, jsonl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same answers, to the last digit, as where the hidden files do not exist at all."""
    monkeypatch.setattr(session_search, "CANDIDATES", 40)
    embedder = GuardedEmbedder(OffloadedEmbedder(LocalEmbedder()))
    alone = tmp_path / "alone"
    alone.mkdir()
    seen = {
        "a.jsonl": [
            say("user", "The boiler is serviced in October by Halden and Sons."),
            say("assistant", "Noted."),
        ],
        "b.jsonl": [say("user", "October is when the ferry stops."), say("user", "A boiler boiler boiler.")],
        "c.jsonl": [
            say("user", f"Note {n} about the ferry, the garden and the boiler room") for n in range(30)
        ],
    }
    followed, lonely = await follow(embedder=embedder), await Followed.open(alone, embedder=embedder)
    for name, records in seen.items():
        for one in (followed, lonely):
            (one.sessions / name).write_bytes(jsonl(*records))
    for number in range(60):
        hidden = [
            say("user", f"boiler october {word} " * 9) for word in ("ferry", "halden", "garden", "notes")
        ]
        (followed.sessions / f"h{number}.jsonl").write_bytes(jsonl(*hidden))
    await followed.runtime.refresh()
    await lonely.runtime.refresh()
    who = Only("a", "b", "c")
    for query in ("boiler october", "who services the boiler", "ferry", "garden notes", "halden", "zeppelin"):
        assert shown(await followed.find(query, who)) == shown(await lonely.find(query, who)), query
        assert shown(await followed.find(query, who, most=3)) == shown(await lonely.find(query, who, most=3))
    assert await followed.find("boiler", Only()) == ()
    assert isinstance(followed.get("h1.jsonl", None, who), NotFound)
    assert isinstance(followed.get("a.jsonl", None, None), NotFound)
    assert isinstance(followed.get("a.jsonl", None, who), Found)
    await lonely.close()
    await embedder.close()


async def test_text_that_left_is_purged_from_every_file_of_the_state(
    follow: Open, say: Any, jsonl: Any
) -> None:
    followed = await follow()
    path = followed.sessions / "a.jsonl"
    path.write_bytes(jsonl(say("user", "canarybird sings")))
    (followed.sessions / "b.jsonl").write_bytes(jsonl(say("user", "others stay")))
    await followed.runtime.refresh()
    assert _holds(followed.state, b"canarybird")
    path.unlink()
    await followed.runtime.refresh(purge=True)
    assert not _holds(followed.state, b"canarybird")
    assert await followed.find("others")


async def test_nothing_of_transcripts_stays_once_they_are_switched_off(
    follow: Open, say: Any, jsonl: Any
) -> None:
    followed = await follow()
    (followed.sessions / "a.jsonl").write_bytes(jsonl(say("user", "canarybird sings")))
    await followed.runtime.refresh()
    await followed.close()
    await Followed.open(followed.state.parent, enabled=False)
    assert list(followed.state.iterdir()) == []


async def test_secrets_are_in_no_file_of_the_state(follow: Open, say: Any, jsonl: Any) -> None:
    followed = await follow()
    (followed.sessions / "a.jsonl").write_bytes(jsonl(say("user", "password: hunter2secret and zeppelin")))
    await followed.runtime.refresh()
    assert _holds(followed.state, b"zeppelin")
    assert not _holds(followed.state, b"hunter2secret")


def _holds(folder: Path, text: bytes) -> bool:
    """Whether any file holds the text, as it is or compressed as the catalog does."""
    return any(_has(path.read_bytes(), text) for path in folder.rglob("*") if path.is_file())


def _has(data: bytes, text: bytes) -> bool:
    if text in data:
        return True
    at = data.find(b"\x78\x01")
    while at >= 0:
        with contextlib.suppress(zlib.error):
            if text in zlib.decompressobj().decompress(data[at : at + 4096]):
                return True
        at = data.find(b"\x78\x01", at + 1)
    return False
