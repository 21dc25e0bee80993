"""`manager.*`: the file-shaped manager as a host sees it over the wire (spec §4.2, U§5, U§12, U§13)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

HIT = {"path", "startLine", "endLine", "score", "snippet", "source"}
NOTES = {
    "MEMORY.md": "- The garage opener is in the blue tin. <!-- trigger: garage --> <!-- importance: 8 -->\n"
    "- The garage code is 4711. <!-- project: github.com/acme/house -->\n",
    "DREAMS.md": "A dream.\n",
    "memory/2026-03-04.md": "The garage roof leaks.\nIt was patched.\n",
    "memory/dreaming/night.md": "A garage in a dream.\n",
}
OWN_SESSION = "agent:main:telegram:direct:7"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(shared_launcher: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A service with two agents, one of which is legacy and answers no v1; a host token for each roster."""
    directory = tmp_path_factory.mktemp("managers")
    for agent in ("main", "other"):
        for name, text in NOTES.items():
            path = directory / agent / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    config = directory / "sidecar.toml"
    config.write_text(
        f'[agents.main]\nworkspace = "{directory}/main"\n'
        f'[agents.other]\nworkspace = "{directory}/other"\nprovider = "legacy"\nserve_v1 = false\n'
        + "".join(
            f'[[tokens]]\nname = "{name}"\nrole = "{role}"\nsecret_env = "{name.upper()}"\n{extra}'
            for name, role, extra in (
                ("wide", "host", ""),
                ("narrow", "host", 'agents = ["main"]\n'),
                ("reader", "operator", ""),
            )
        )
    )
    secrets = {name: f"{name}-secret-of-enough-bytes" for name in ("WIDE", "NARROW", "READER")}
    service = shared_launcher.serve(None, "--config", str(config), environment=secrets)
    service.operator_token = secrets["READER"]
    await service.ready()
    service.secrets = secrets
    service.workspace = directory / "main"
    return service


async def call(served: Any, name: str, by: str = "NARROW", **params: Any) -> Any:
    status, frame = await served.post(f"/rpc/manager.{name}", params, token=served.secrets[by])
    assert status == 200, frame
    payload = frame["payload"]
    assert payload.pop("agentId") == params.get("agentId", "main")
    assert payload.pop("instance")
    return payload


async def error(served: Any, name: str, by: str = "NARROW", **params: Any) -> tuple[str, str]:
    _, frame = await served.post(f"/rpc/manager.{name}", params, token=served.secrets[by])
    assert frame["ok"] is False, frame
    return frame["error"]["code"], frame["error"]["message"]


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_search_gives_raw_hits_with_where_they_come_from(served: Any) -> None:
    answer = await call(served, "search", query="garage", maxResults=10, minScore=0)
    assert set(answer) == {"hits"}
    found = {(hit["path"], hit["startLine"]): hit for hit in answer["hits"]}
    assert set(found) == {
        ("MEMORY.md", 1), ("MEMORY.md", 2), ("memory/2026-03-04.md", 1), ("memory/dreaming/night.md", 1),
    }  # fmt: skip
    opener = found["MEMORY.md", 1]
    assert set(opener) - HIT == {"vectorScore", "textScore", "importance", "triggers", "provenance"}
    assert (opener["importance"], opener["triggers"]) == (8, "garage")
    assert opener["snippet"] == "- The garage opener is in the blue tin."
    mtime = (served.workspace / "MEMORY.md").stat().st_mtime_ns // 1_000_000
    assert opener["provenance"] == {
        "originClass": "agent", "sessionKind": "unknown", "observedAt": mtime,
    }  # fmt: skip
    assert found["memory/dreaming/night.md", 1]["provenance"]["originClass"] == "system"
    assert found["MEMORY.md", 2]["projectKey"] == "github.com/acme/house"
    words = await call(served, "search", query="garage opener", maxResults=1, lexicalOnly=True)
    assert (len(words["hits"]), "vectorScore" in words["hits"][0]) == (1, False)
    other = await call(served, "search", query="garage", minScore=0, activeProjectKeys=["github.com/x/y"])
    assert "github.com/acme/house" not in [hit.get("projectKey") for hit in other["hits"]]
    assert (await call(served, "search", query="garage", sources=["sessions"]))["hits"] == []


async def test_read_file_reads_what_is_readable_and_says_where_it_goes_on(served: Any) -> None:
    assert await call(served, "readFile", relPath="memory/2026-03-04.md", lines=1) == {
        "status": "ok", "path": "memory/2026-03-04.md",
        "from": 1, "lines": 1, "truncated": True, "nextFrom": 2,
        "text": "The garage roof leaks.\n\n[More content available. Use from=2 to continue.]",
    }  # fmt: skip
    assert (await call(served, "readFile", relPath="DREAMS.md"))["text"] == "A dream."
    assert await call(served, "readFile", relPath="memory/none.md") == {
        "status": "not_found", "text": "", "path": "memory/none.md",
    }  # fmt: skip
    status, frame = await served.post(
        "/rpc/manager.readFile", {"relPath": "SOUL.md"}, token=served.secrets["NARROW"]
    )
    frame["error"]["details"].pop("instance", None)
    assert len(frame["error"]["details"].pop("requestId")) == 12
    assert (status, frame["error"]) == (
        503,
        {
            "code": "UNAVAILABLE",
            "message": "path is not an allowed Markdown memory file",
            "details": {"code": "PROVIDER_FAILED", "reason": "MEMORY_PATH_NOT_ALLOWED"},
        },
    )


async def test_status_tells_what_is_indexed_and_no_host_path(served: Any) -> None:
    status = (await call(served, "status"))["status"]
    assert (status["backend"], status["files"], status["dirty"]) == ("builtin", 3, False)
    assert status["chunks"] == 4
    assert (status["provider"], status["sources"]) == ("local", ["memory"])
    assert status["sourceCounts"][0]["files"] == 3
    assert status["custom"]["searchMode"] == "hybrid"
    assert status["vector"]["index"] == {"state": "complete"}
    assert "lastSyncError" not in status
    assert str(served.workspace.parent) not in repr(status)
    assert str(served.state) not in repr(status)


async def test_probe_embeds_something_to_see_that_it_can(served: Any) -> None:
    probed = await call(served, "probe")
    assert probed["embedding"] == {"ok": True}
    assert probed["vector"]["available"] is True


async def test_after_sync_what_was_written_before_is_found(served: Any) -> None:
    (served.workspace / "memory" / "new.md").write_text("The plumber is called Fennimore.\n")
    assert await call(served, "sync", reason="post-compaction") == {}
    assert [hit["path"] for hit in (await call(served, "search", query="Fennimore"))["hits"]] == [
        "memory/new.md"
    ]
    (served.workspace / "memory" / "new.md").unlink()
    assert await call(served, "sync", force=True) == {}
    assert (await call(served, "search", query="Fennimore", minScore=0.3))["hits"] == []


async def test_classify_tells_the_origin_of_paths_by_their_place(served: Any, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("x")
    link = served.workspace / "memory" / "out.md"
    link.symlink_to(outside)
    expected = {
        "MEMORY.md": "agent",
        "memory.md": "agent",
        "USER.md": "agent",
        "users/7/USER.md": "agent",
        "memory/2026-03-04.md": "agent",
        "./memory/./new.md": "agent",
        "DREAMS.md": "system",
        "memory/dreaming/night.md": "system",
        "memory/.dreams/x.md": "system",
        "memory/out.md": "untrusted",
        "../outside.md": "untrusted",
        "memory/../../x.md": "untrusted",
        "SOUL.md": "untrusted",
        "": "untrusted",
        "memory/\0.md": "untrusted",
    }
    answer = await call(served, "classify", relativePaths=list(expected))
    link.unlink()
    assert {item["relativePath"]: item["originClass"] for item in answer["classifications"]} == expected


async def test_authorize_gives_back_admitted_hits_as_they_came(served: Any) -> None:
    note = {"path": "memory/a.md", "source": "memory", "startLine": 1, "endLine": 2, "own": {"extra": 1}}
    talk = {"path": "sessions/main/5f0c.jsonl", "source": "sessions", "startLine": 1, "endLine": 1}
    caller = {"requesterSessionKey": OWN_SESSION, "sandboxed": False, "trustedAgentScope": False}
    answer = await call(served, "authorize", hits=[talk, note, talk], **caller)
    assert answer == {"hits": [note]}
    recall = {"anchorSessionKey": OWN_SESSION, "scope": "same-agent-private", "corpus": "sessions"}
    assert await call(served, "authorize", hits=[note], conversationRecall=recall, **caller) == {"hits": []}


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("search", {}, "query must be a non-empty string"),
        ("search", {"query": "x", "maxResults": 0}, "maxResults must be a positive integer"),
        ("search", {"query": "x", "minScore": "1"}, "minScore must be a finite number"),
        ("search", {"query": "x", "sources": []}, "sources must be a non-empty array of memory or sessions"),
        (
            "search",
            {"query": "x", "activeProjectKeys": [""]},
            "activeProjectKeys must be an array of at most 64 non-empty strings",
        ),
        ("search", {"query": "x", "lexicalOnly": 1}, "lexicalOnly must be true or false"),
        ("search", {"query": "x", "sessionKey": " "}, "sessionKey must be a non-empty string"),
        ("search", {"query": "x", "sessionKey": "agent:other:main"}, "unknown agentId"),
        ("search", {"query": "x", "agentId": "other"}, "unknown agentId"),
        ("readFile", {}, "relPath must be a string"),
        ("readFile", {"relPath": "a", "from": "1"}, "from must be a finite number"),
        ("readFile", {"relPath": "a", "lines": None}, "lines must be a finite number"),
        ("sync", {"force": "yes"}, "force must be true or false"),
        ("candidates", {"kind": "all"}, "kind must be trigger or project"),
        ("classify", {"relativePaths": "a"}, "relativePaths must be an array of at most 1000 strings"),
        ("authorize", {"hits": [{}]}, "hits must be an array of at most 1000 memory search hits"),
        ("authorize", {"hits": []}, "sandboxed must be true or false"),
        (
            "authorize",
            {"hits": [], "sandboxed": False, "trustedAgentScope": True, "conversationRecall": {}},
            "conversationRecall needs anchorSessionKey, scope and corpus",
        ),
        (
            "authorize",
            {
                "hits": [],
                "sandboxed": False,
                "trustedAgentScope": True,
                "requesterSessionKey": "agent:other:x",
            },
            "unknown agentId",
        ),
        ("status", {"agentId": ""}, "agentId must be a non-empty string"),
    ],
)
async def test_what_cannot_be_meant_is_refused_in_order(
    served: Any, name: str, params: dict[str, Any], message: str
) -> None:
    assert await error(served, name, **params) == ("INVALID_REQUEST", message)


async def test_only_a_host_may_ask_and_it_names_one_of_its_agents(served: Any) -> None:
    assert await error(served, "status", "READER") == ("FORBIDDEN", "unauthorized role: operator")
    code, message = await error(served, "status", "WIDE")
    assert (code, "no explicit owner" in message) == ("INVALID_REQUEST", True)
    assert (await call(served, "status", "WIDE", agentId="other"))["status"]["files"] == 3


async def test_v1_is_refused_where_it_is_switched_off_and_the_manager_is_not(served: Any) -> None:
    status, frame = await served.post("/rpc/memory.search", {"query": "garage", "agentId": "other"})
    assert (status, frame["error"]) == (
        400,
        {
            "code": "INVALID_REQUEST",
            "message": 'memory plugin "memory-sidecar-legacy" uses the provider runtime; '
            "retry memory.search with version: 2",
        },
    )
    assert (await call(served, "search", "WIDE", agentId="other", query="garage"))["hits"]
    v1 = await served.call("memory.search", {"query": "garage", "agentId": "main"})
    assert v1["results"]
    assert not any("provenance" in hit for hit in v1["results"])


async def test_candidates_are_raw_hits_of_whole_entries_with_score_zero(served: Any) -> None:
    (trigger,) = (await call(served, "candidates", kind="trigger"))["hits"]
    assert (trigger["path"], trigger["startLine"], trigger["score"]) == ("MEMORY.md", 1, 0)
    assert trigger["snippet"] == "- The garage opener is in the blue tin."
    assert trigger["provenance"]["originClass"] == "agent"
    (project,) = (
        await call(served, "candidates", kind="project", activeProjectKeys=["github.com/acme/house"])
    )["hits"]
    assert (project["startLine"], project["projectKey"]) == (2, "github.com/acme/house")
    assert (await call(served, "candidates", kind="project"))["hits"] == []


async def test_an_origin_that_a_host_recorded_takes_trust_away(served: Any) -> None:
    read = await served.call(
        "memory.get", {"agentId": "main", "reference": {"providerId": "memory-sidecar", "id": "MEMORY.md"}}
    )
    recorded = {"agentId": "main", "path": "MEMORY.md", "originClass": "untrusted"}
    status, _ = await served.post(
        "/rpc/provenance.put",
        recorded | {"revision": read["reference"]["revision"]},
        token=served.secrets["NARROW"],
    )
    assert status == 200
    answer = await call(served, "classify", relativePaths=["MEMORY.md", "memory/2026-03-04.md"])
    assert [item["originClass"] for item in answer["classifications"]] == ["untrusted", "agent"]
