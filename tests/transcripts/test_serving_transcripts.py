"""Transcripts over the wire: which files are found, what is shown of them, and that notes never notice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

STAMP = "2026-01-02T03-04-05.678Z"
NOTES = {
    "MEMORY.md": "- The spare key hangs behind the blue can.\n- The boiler is in the cellar.\n",
    "memory/2026-01-01.md": "# Boiler\n\nThe boiler was serviced by Halden.\n",
    "memory/topics/garden.md": "Roses by the wall. Water the garden in the morning.\n",
}


def corpus(say: Any) -> dict[str, list[object]]:
    """A folder of transcripts by file name."""
    bootstrap = {
        "type": "custom",
        "customType": "openclaw:bootstrap-context:full",
        "data": {"runId": "dreaming-narrative-1"},
    }
    internal = {"kind": "internal_system", "sourceTool": "other"}
    return {
        "direct.jsonl": [
            {"type": "session", "id": "direct"},
            say("user", "Where is the zeppelin hangar?"),
            say("toolResult", "the raw tool result says quokka"),
            say("assistant", "In Friedrichshafen. The password: hunter2secret opens the gate."),
            say("user", "And the boiler? " + "We talked at length about the boiler. " * 60),
        ],
        "group.jsonl": [
            say("user", "Group talk about the marmot."),
            say("assistant", "The marmot whistles."),
        ],
        "channel.jsonl": [say("user", "Channel talk about the ibex.")],
        "child.jsonl": [say("user", "Task for a sub-agent: count the lynx.", __openclaw={})],
        "cronrun.jsonl": [say("user", "[cron:x] go"), say("assistant", "The cron report names the walrus.")],
        "cronchild.jsonl": [say("user", "Child of a cron run, on the narwhal.")],
        "beat.jsonl": [say("user", "A heartbeat session about the dodo.")],
        "dream.jsonl": [bootstrap, say("user", "A dream of the phoenix.")],
        "system.jsonl": [say("user", "Only the system: gryphon.", provenance=internal)],
        f"old.jsonl.reset.{STAMP}": [say("user", "Before the reset: the tapir.")],
        f"gone.jsonl.deleted.{STAMP}": [say("user", "Deleted: the okapi.")],
        f"copy.jsonl.bak.{STAMP}": [say("user", "A backup: the kiwi.")],
        "run.trajectory.jsonl": [say("user", "A trajectory: the emu.")],
        "direct.checkpoint.123e4567-e89b-12d3-a456-426614174000.jsonl": [
            say("user", "A checkpoint: the rhea.")
        ],
        "odd.jsonl": [
            "[" * 100_000,
            "\x00",
            b'{"type":"message"',
            b"\n",
            say("user", "Odd file, even axolotl."),
        ],
        "empty.jsonl": [],
    }


STORE = {
    "agent:main:main": {"sessionId": "direct"},
    "agent:main:telegram:group:1": {"sessionId": "group"},
    "agent:main:slack:channel:1": {"sessionId": "channel"},
    "agent:main:subagent:1": {"sessionId": "child", "spawnedBy": "agent:main:main"},
    "agent:main:cron:job:run:1": {"sessionId": "cronrun"},
    "agent:main:subagent:2": {"sessionId": "cronchild", "spawnedBy": "agent:main:cron:job:run:1"},
    "agent:main:main:heartbeat": {"sessionId": "beat"},
    "agent:main:odd": ["not a row"],
}


@pytest.fixture(scope="module")
def served(
    shared_launcher: Any, tmp_path_factory: pytest.TempPathFactory, serving: Any, say: Any, jsonl: Any
) -> Any:
    folder = tmp_path_factory.mktemp("served")
    sessions = folder / "agents" / "main" / "sessions"
    sessions.mkdir(parents=True)
    for name, text in NOTES.items():
        (folder / "workspace" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "workspace" / name).write_text(text)
    for name, records in corpus(say).items():
        (sessions / name).write_bytes(jsonl(*records))
    (sessions / "sessions.json").write_text(json.dumps(STORE))
    (sessions / "below").mkdir()
    (sessions / "below" / "deep.jsonl").write_bytes(jsonl(say("user", "Below the folder: the puma.")))
    (folder / "outside.jsonl").write_bytes(jsonl(say("user", "Behind a link: the ocelot.")))
    (sessions / "link.jsonl").symlink_to(folder / "outside.jsonl")
    return serving(shared_launcher, folder, settings="include_reset_archives = true")


@pytest.mark.parametrize(
    ("word", "path", "line"),
    [
        ("zeppelin", "direct.jsonl", 2),
        ("marmot", "group.jsonl", 1),
        ("ibex", "channel.jsonl", 1),
        ("lynx", "child.jsonl", 1),
        ("tapir", f"old.jsonl.reset.{STAMP}", 1),
        ("axolotl", "odd.jsonl", 4),
    ],
)
async def test_conversations_sub_agents_and_reset_archives_are_found(
    served: Any, word: str, path: str, line: int
) -> None:
    await served.service.ready()
    hit = (await served.found(word))[0]
    assert hit["reference"]["id"] == f"sessions/main/{path}"
    assert hit["source"] == "sessions"
    assert hit["citations"][0]["startLine"] == line
    assert word in hit["excerpt"]
    assert hit["automaticRecall"] == {"eligible": False}


@pytest.mark.parametrize(
    "word",
    [
        "walrus",
        "narwhal",
        "dodo",
        "phoenix",
        "gryphon",
        "okapi",
        "kiwi",
        "emu",
        "rhea",
        "puma",
        "ocelot",
        "quokka",
    ],
)
async def test_machinery_deleted_archives_copies_and_links_are_never_found(served: Any, word: str) -> None:
    await served.service.ready()
    for hit in await served.found(word, minScore=0):
        assert word not in hit["excerpt"]


@pytest.mark.parametrize(
    "name",
    ["dream.jsonl", "cronrun.jsonl", "system.jsonl", f"gone.jsonl.deleted.{STAMP}", "link.jsonl",
     "below/deep.jsonl", "sessions.json", "run.trajectory.jsonl", "none.jsonl", "../../../outside.jsonl",
     "empty.jsonl"],
)  # fmt: skip
async def test_what_is_not_found_cannot_be_read_either(served: Any, name: str) -> None:
    await served.service.ready()
    reference = {"providerId": "memory-sidecar", "id": f"sessions/main/{name}"}
    answer = await served.service.call("memory.get", {"reference": reference})
    assert answer.get("text", "") == ""


async def test_a_session_reference_gives_the_rendered_lines_of_its_records(served: Any) -> None:
    await served.service.ready()
    hit = (await served.found("zeppelin hangar"))[0]
    got = await served.service.call("memory.get", {"reference": hit["reference"]})
    assert got["text"] == (
        "User: Where is the zeppelin hangar?\n"
        "Assistant: In Friedrichshafen. The password: [redacted] opens the gate."
    )
    assert hit["excerpt"] == got["text"]
    assert hit["reference"]["fragment"] == "L2-L4"
    assert got["reference"] == hit["reference"]
    assert (got["from"], got["lines"]) == (2, 3)


async def test_raw_text_of_a_transcript_never_leaves(served: Any) -> None:
    await served.service.ready()
    whole = {"providerId": "memory-sidecar", "id": "sessions/main/direct.jsonl"}
    answers = [
        await served.service.call("memory.get", {"reference": whole, "from": n}) for n in (1, 2, 3, 4, 5)
    ]
    answers += [
        await served.service.search("password zeppelin quokka boiler", sources=["sessions"], minScore=0)
    ]
    answers += [await served.service.call("memory.status", {})]
    for answer in answers:
        shown = json.dumps(answer)
        for raw in ("hunter2", "quokka", '\\"role\\"', "toolResult", str(served.sessions)):
            assert raw not in shown


async def test_a_match_in_a_long_message_is_read_by_its_characters(served: Any) -> None:
    await served.service.ready()
    hits = await served.found("talked at length about the boiler")
    hit = next(hit for hit in hits if "@c" in hit["reference"]["fragment"])
    got = await served.service.call("memory.get", {"reference": hit["reference"]})
    assert got["text"] == hit["excerpt"]
    assert len(hit["excerpt"]) <= 700


async def test_bounds_count_physical_lines_and_say_where_to_go_on(served: Any) -> None:
    await served.service.ready()
    own = {"providerId": "memory-sidecar", "id": "sessions/main/direct.jsonl"}
    first = await served.service.call("memory.get", {"reference": own, "from": 1, "lines": 2})
    assert (first["text"], first["truncated"], first["nextFrom"]) == (
        "User: Where is the zeppelin hangar?",
        True,
        4,
    )
    second = await served.service.call(
        "memory.get", {"reference": own, "from": first["nextFrom"], "lines": 1}
    )
    assert second["text"].startswith("Assistant: In Friedrichshafen.")
    assert second["reference"]["fragment"] == "L4-L4"
    beyond = await served.service.call("memory.get", {"reference": own, "from": 900})
    assert (beyond["status"], beyond["text"], beyond["lines"]) == ("ok", "", 0)


@pytest.mark.parametrize(
    "change",
    [{"revision": "0" * 40}, {"fragment": "L1-L3"}, {"fragment": "L2-L99"},
     {"fragment": "L5-L5@c99999-100000"}, {"fragment": "nonsense"}],
)  # fmt: skip
async def test_a_reference_that_names_other_text_is_not_found(served: Any, change: dict[str, str]) -> None:
    await served.service.ready()
    reference = (await served.found("marmot"))[0]["reference"] | change
    if "fragment" in change:
        reference["id"] = "sessions/main/direct.jsonl"
    answer = await served.service.call("memory.get", {"reference": reference})
    assert answer["status"] == "not_found"


async def test_memory_is_searched_by_default_and_sources_reach_transcripts_alone_or_both(served: Any) -> None:
    await served.service.ready()
    default = await served.service.search("boiler")
    assert {hit["source"] for hit in default["hits"]} == {"memory"}
    both = await served.service.search("boiler", sources=["sessions", "memory"])
    assert {hit["source"] for hit in both["hits"]} == {"memory", "sessions"}
    scores = [hit["score"] for hit in both["hits"]]
    assert scores == sorted(scores, reverse=True)
    memory = [hit for hit in both["hits"] if hit["source"] == "memory"]
    assert memory == (await served.service.search("boiler", sources=["memory"]))["hits"][: len(memory)]
    v1 = await served.service.search_v1("zeppelin marmot")
    assert {hit["source"] for hit in v1["results"]} <= {"memory"}


async def test_status_counts_each_source_and_names_what_was_left_out(served: Any) -> None:
    await served.service.ready()
    details = (await served.service.call("memory.status", {}))["details"]
    counts = {each["source"]: each for each in details["sourceCounts"]}
    assert counts["memory"]["files"] == 3
    assert counts["sessions"]["files"] == 7
    assert counts["sessions"]["chunks"] > 7
    assert details["sessions"]["notRemembered"] == {"cron": 2, "heartbeat": 1, "dreaming": 1, "system": 1}
    assert details["sessions"]["skipped"] == [{"path": "sessions/main/link.jsonl", "reason": "link"}]


async def test_pages_over_both_sources_hold_every_hit_once(served: Any) -> None:
    await served.service.ready()
    asked = {"sources": ["memory", "sessions"], "minScore": 0}
    whole = await served.service.search("the boiler talk marmot garden", maxResults=50, **asked)
    paged: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        page = await served.service.search("the boiler talk marmot garden", maxResults=3, **asked, **cursor)
        paged += page["hits"]
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert [(hit["reference"], hit["excerpt"]) for hit in paged] == [
        (hit["reference"], hit["excerpt"]) for hit in whole["hits"]
    ]
    assert len(paged) > 6


async def test_answers_about_notes_are_the_same_bytes_with_and_without_transcripts(
    served: Any, shared_launcher: Any, tmp_path: Path, write: Any
) -> None:
    await served.service.ready()
    workspace = tmp_path / "workspace"
    write(workspace, NOTES)
    plain = shared_launcher.serve(workspace, state=tmp_path / "state")
    await plain.ready()
    for query in (
        "boiler",
        "where is the spare key",
        "zeppelin",
        "who watered the garden and the roses",
        "cellar",
    ):
        for asked in ({}, {"minScore": 0, "maxResults": 50}, {"sources": ["memory"]}):
            with_, without = await served.service.search(query, **asked), await plain.search(query, **asked)
            assert json.dumps(with_) == json.dumps(without)
        assert await served.service.search_v1(query) == await plain.search_v1(query)
    # Without transcripts the source is not declared, and a reference to one names nothing.
    _, error = await plain.error("memory.search", {"version": 2, "query": "x", "sources": ["sessions"]})
    assert error["details"]["code"] == "CAPABILITY_UNSUPPORTED"
    reference = {"providerId": "memory-sidecar", "id": "sessions/main/direct.jsonl"}
    assert (await plain.call("memory.get", {"reference": reference}))["status"] == "not_found"
    assert plain.stop() == 0
