"""`sidecar.why` of a transcript: found, not found, or not there for this caller (spec §2, §5.5)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Serving = Callable[..., Any]


WORDS_ONLY = {"MEMORY_SIDECAR_EMBEDDINGS_PROVIDER": "none"}


@pytest.fixture(scope="module")
def served(shared_launcher: Any, serving: Serving, say: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("talks")
    (folder / "agents" / "main" / "sessions").mkdir(parents=True)
    served = serving(shared_launcher, folder, environment=WORDS_ONLY)
    session = {"type": "session", "id": "one"}
    served.write(
        "one.jsonl", session,
        say("user", "Where does the ferry to Lindholm leave?"),
        say("toolResult", "a tool said this"),
        say("assistant", "From pier nine, at a quarter past seven."),
    )  # fmt: skip
    served.write("secret.jsonl", {"type": "session", "id": "secret"}, say("user", "The ferry is mine."))
    served.write("two.jsonl.reset.2026-01-01T00-00-00.000Z", session, say("user", "An older ferry."))
    return served


@pytest.fixture
async def talks(served: Any) -> Any:
    await served.service.ready()
    await served.service.call("sidecar.refresh", {})
    row = {"sessionKey": "agent:main:secret", "sessionId": "secret", "incognito": True}
    status, _ = await served.service.post("/rpc/session.put", row, token=served.service.host_token)
    assert status == 200
    return served


async def why(talks: Any, name: str, line: int | None = None, query: str = "ferry Lindholm") -> Any:
    asked = {"query": query, "path": f"sessions/main/{name}"}
    return await talks.service.call("sidecar.why", asked if line is None else {**asked, "line": line})


async def test_a_line_of_a_transcript_is_found_and_says_how_to_search_there(talks: Any) -> None:
    found = await why(talks, "one.jsonl", 2)
    assert (found["verdict"], found["rank"], found["action"]) == ("found", 1, "search with --source sessions")
    assert "sessions/main/one.jsonl#L2" in found["reason"]
    assert (await why(talks, "one.jsonl"))["verdict"] == "found"


@pytest.mark.parametrize(
    ("name", "line", "verdict", "part"),
    [
        ("one.jsonl", 3, "no-such-line", "neither the user nor the assistant"),
        ("one.jsonl", 99, "no-such-line", "the last line that can be found is 4"),
        ("none.jsonl", 1, "not-indexed", "there is no such transcript"),
        ("two.jsonl.reset.2026-01-01T00-00-00.000Z", 2, "not-indexed", "reset-archive"),
    ],
)
async def test_what_is_not_found_says_why(name: str, line: int, verdict: str, part: str, talks: Any) -> None:
    told = await why(talks, name, line)
    assert told["verdict"] == verdict
    assert part in told["reason"]


async def test_words_that_do_not_stand_there_are_no_match(talks: Any) -> None:
    assert (await why(talks, "one.jsonl", 2, query="zeppelin"))["verdict"] == "no-match"


async def test_what_nobody_may_see_is_answered_as_if_it_were_not_there(talks: Any) -> None:
    hidden, absent = await why(talks, "secret.jsonl", 2), await why(talks, "none.jsonl", 2)
    assert {**hidden, "path": ""} == {**absent, "path": ""}


async def test_where_transcripts_are_off_the_setting_is_named(launcher: Any, tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    service = launcher.serve(tmp_path, environment=WORDS_ONLY)
    await service.ready()
    told = await service.call("sidecar.why", {"query": "x", "path": "sessions/main/one.jsonl"})
    assert told["reason"] == "transcripts are not indexed"
    assert told["action"] == "set [agents.main.sessions] enabled = true"
