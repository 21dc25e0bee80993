"""How many hits are asked for, and how good they must be, is obeyed or refused by name (T6)."""

from __future__ import annotations

from typing import Any

import pytest

COUNT = "maxResults and minScore must be finite numbers when provided"
POSITIVE = "maxResults must be a positive integer"
FINITE = "minScore must be a finite number"

# What v1 and v2 answer to a limit: how many hits, or the message (the contract differs between the two).
LIMITS: list[tuple[Any, int | str, int | str]] = [
    (3, 3, 3),
    (3.0, 3, 3),
    (0, 1, POSITIVE),
    (-1, 1, POSITIVE),
    (1_000_000_000, 50, 50),
    (2.5, 2, POSITIVE),
    ("3", COUNT, POSITIVE),
    ("4abc", COUNT, POSITIVE),
    (True, COUNT, POSITIVE),
    (None, COUNT, POSITIVE),
    ([3], COUNT, POSITIVE),
]


@pytest.fixture(scope="module")
def started(shared_launcher: Any, tmp_path_factory: Any, words_only: Any) -> Any:
    workspace = tmp_path_factory.mktemp("workspace")
    (workspace / "memory").mkdir()
    for number in range(65):
        path = workspace / "memory" / f"note-{number}.md"
        path.write_text(f"The lantern numbered {number} hangs by gate {number * 7}.\n", encoding="utf-8")
    return shared_launcher.serve(workspace, environment=words_only)


@pytest.fixture
async def lanterns(started: Any) -> Any:
    await started.ready()
    return started


async def count_or_message(service: Any, version: int, **params: object) -> int | str:
    """The number of hits, or the message of a refusal that is the caller's fault."""
    asked = {"version": version, "query": "lantern", **params}
    status, frame = await service.post("/rpc/memory.search", asked)
    if not frame["ok"]:
        assert (status, frame["error"]["code"]) == (400, "INVALID_REQUEST")
        return str(frame["error"]["message"])
    return len(frame["payload"]["results" if version == 1 else "hits"])


@pytest.mark.parametrize(("limit", "v1", "v2"), LIMITS)
async def test_a_limit_is_obeyed_clamped_as_documented_or_refused_by_name(
    lanterns: Any, limit: Any, v1: int | str, v2: int | str
) -> None:
    """BR-35."""
    assert await count_or_message(lanterns, 1, maxResults=limit) == v1
    assert await count_or_message(lanterns, 2, maxResults=limit) == v2


async def test_without_a_limit_both_contracts_give_twenty(lanterns: Any) -> None:
    """BR-35."""
    assert [await count_or_message(lanterns, version) for version in (1, 2)] == [20, 20]


@pytest.mark.parametrize("minimum", ["0.2", "0.2x", None, True, {}])
async def test_a_minimum_score_that_is_no_number_is_refused_by_name(lanterns: Any, minimum: Any) -> None:
    """BR-35."""
    assert await count_or_message(lanterns, 1, minScore=minimum) == COUNT
    assert await count_or_message(lanterns, 2, minScore=minimum) == FINITE


async def test_a_minimum_score_out_of_reach_keeps_word_hits_in_v1_and_nothing_in_v2(lanterns: Any) -> None:
    """BR-35; v1 keeps hits that matched words, v2 is strict (spec §5.1, §5.3)."""
    assert await count_or_message(lanterns, 1, minScore=-1, maxResults=50) == 50
    assert await count_or_message(lanterns, 2, minScore=-1, maxResults=50) == 50
    assert await count_or_message(lanterns, 1, minScore=2, maxResults=50) == 50
    assert await count_or_message(lanterns, 2, minScore=2, maxResults=50) == 0


@pytest.mark.parametrize("value", [b"NaN", b"Infinity", b"1e999"])
@pytest.mark.parametrize("name", [b"maxResults", b"minScore"])
@pytest.mark.parametrize("version", [b"1", b"2"])
async def test_numbers_that_json_does_not_have_are_refused(
    lanterns: Any, version: bytes, name: bytes, value: bytes
) -> None:
    """BR-35."""
    body = b'{"query": "lantern", "version": ' + version + b', "' + name + b'": ' + value + b"}"
    status, answer = await lanterns.post("/rpc/memory.search", body)
    assert status == 400
    assert answer.get("error", answer)["code"] == "INVALID_REQUEST"


async def test_a_query_that_is_too_long_is_cut_and_both_contracts_say_so(lanterns: Any) -> None:
    query = "lantern " + "x" * 9000
    said = "only the first 8192 characters of the query were used"
    v2 = await lanterns.call("memory.search", {"version": 2, "query": query})
    assert v2["hits"]
    assert said in v2["warning"]
    v1 = await lanterns.call("memory.search", {"query": query})
    assert v1["results"]
    assert v1["warning"] == f"{said[0].upper()}{said[1:]}."
    # Nothing is missing for that: a client need not index anything.
    assert v1.keys().isdisjoint({"stale", "action"})
