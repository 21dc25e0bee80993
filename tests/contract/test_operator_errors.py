"""Every error that an operator client can provoke, on the wire, with its HTTP status (U§1-3, spec §4)."""

from __future__ import annotations

import asyncio
import json
import secrets
from pathlib import Path
from typing import Any

import pytest

V1_NUMBERS = "maxResults and minScore must be finite numbers when provided"
BOTH = "reference.providerId and reference.id are required"
AMBIGUOUS = (
    "Multiple agents are configured, but memory {} has no explicit owner. "
    "Pass agentId to select a configured agent."
)
OWN = {"providerId": "memory-sidecar", "id": "MEMORY.md"}
SEARCH, GET, STATUS = "memory.search", "memory.get", "memory.status"

CASES: list[tuple[str, dict[str, Any], str]] = [
    (SEARCH, {"version": 3, "query": "x"}, "unsupported memory version"),
    (SEARCH, {"version": "2", "query": "x"}, "unsupported memory version"),
    (SEARCH, {}, "query must be a non-empty string"),
    (SEARCH, {"query": "   "}, "query must be a non-empty string"),
    (SEARCH, {"query": "x", "maxResults": "3"}, V1_NUMBERS),
    (SEARCH, {"query": "x", "minScore": None}, V1_NUMBERS),
    (SEARCH, {"query": "x", "agentId": 3}, "agentId must be a string"),
    *[
        (SEARCH, {"query": "x", "agentId": bad}, "unknown agentId")
        for bad in ("", "!!!", "-", "агент", "nobody")
    ],
    (SEARCH, {"version": 2}, "query must be a non-empty string"),
    (SEARCH, {"version": 2, "query": "x", "maxResults": 2.5}, "maxResults must be a positive integer"),
    (SEARCH, {"version": 2, "query": "x", "minScore": "1"}, "minScore must be a finite number"),
    (SEARCH, {"version": 2, "query": "x", "cursor": " "}, "cursor must be a non-empty string"),
    (
        SEARCH,
        {"version": 2, "query": "x", "sources": []},
        "sources must be a non-empty array of memory or sessions",
    ),
    (SEARCH, {"version": 2, "query": "x", "sources": ["x"]}, "sources must contain only memory or sessions"),
    (SEARCH, {"version": 2, "query": "x", "agentId": ""}, "agentId must be a non-empty string"),
    (SEARCH, {"version": 2, "query": "x", "agentId": "!!!"}, "unknown agentId"),
    (GET, {}, "reference must be a provider-scoped memory reference"),
    (GET, {"reference": {"providerId": " "}}, "reference.providerId must be a non-empty string"),
    (GET, {"reference": {"providerId": "p", "id": ""}}, "reference.id must be a non-empty string"),
    (GET, {"reference": {"providerId": "p"}}, BOTH),
    (GET, {"reference": OWN | {"revision": ""}}, "reference.revision must be a non-empty string"),
    (GET, {"reference": OWN | {"fragment": ""}}, "reference.fragment must be a non-empty string"),
    (GET, {"reference": OWN, "from": 0}, "from must be a positive integer"),
    (GET, {"reference": OWN, "lines": -1}, "lines must be a positive integer"),
    (GET, {"reference": OWN, "agentId": 1}, "agentId must be a non-empty string"),
    (GET, {"reference": OWN, "agentId": "nobody"}, "unknown agentId"),
    (STATUS, {"agentId": None}, "agentId must be a non-empty string"),
    (STATUS, {"agentId": "nobody"}, "unknown agentId"),
    ("memory.write", {}, "unknown method: memory.write"),
]


async def test_each_invalid_request_has_upstreams_words_and_status_400(shared_example: Any) -> None:
    for method, params, message in CASES:
        status, error = await shared_example.error(method, params)
        assert (status, error) == (400, {"code": "INVALID_REQUEST", "message": message}), (method, params)


async def test_a_frame_and_bare_params_give_the_same_answer(shared_example: Any) -> None:
    good: list[tuple[str, dict[str, Any]]] = [
        (SEARCH, {"query": "boiler"}),
        (SEARCH, {"version": 1, "query": "boiler"}),
        (SEARCH, {"version": 2, "query": "boiler"}),
        (GET, {"reference": OWN}),
    ]
    for method, params in [*good, *[(case[0], case[1]) for case in CASES]]:
        bare_status, bare = await shared_example.post(f"/rpc/{method}", params)
        frame = {"type": "req", "id": "7", "method": method, "params": params}
        framed_status, framed = await shared_example.post("/rpc", frame)
        assert framed["id"] == "7"
        assert framed["type"] == "res"
        bare.pop("id")
        framed.pop("id")
        assert (bare_status, bare) == (framed_status, framed)


BAD_FRAMES: list[tuple[bytes, str]] = [
    (b"", "invalid"),
    (b"{", "invalid"),
    (b"[]", "invalid"),
    (b"\xff\xfe", "invalid"),
    (b'{"type":"req","id":"a","method":"memory.status","extra":1}', "a"),
    (b'{"type":"res","id":"a","method":"memory.status"}', "a"),
    (b'{"type":"req","id":"","method":"memory.status"}', "invalid"),
    (b'{"type":"req","id":1,"method":"memory.status"}', "invalid"),
    (b'{"type":"req","id":"a"}', "a"),
    (b'{"type":"req","id":"a","method":"memory.search","params":{"query":"x","minScore":NaN}}', "invalid"),
    (b'{"type":"req","id":"a","method":"memory.search","params":{"query":"x","minScore":1e999}}', "invalid"),
    (b'{"type":"req","id":"a","method":"memory.search","params":{"query":"\\ud800"}}', "invalid"),
    (b"[" * 200_000, "invalid"),
]


async def test_a_malformed_frame_is_answered_as_invalid_and_the_service_lives_on(shared_example: Any) -> None:
    for body, frame_id in BAD_FRAMES:
        status, frame = await shared_example.post("/rpc", body)
        assert status == 400, body[:80]
        assert frame["id"] == frame_id, body[:80]
        assert frame["error"]["code"] == "INVALID_REQUEST"
        assert frame["error"]["message"].startswith("invalid request frame: "), body[:80]
    assert (await shared_example.search("boiler"))["hits"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (r'"\ud800x"', "a lone surrogate in a string"),
        (r'"x\uDFFF"', "a lone surrogate in a string"),
        (r'"\ud83d\ud83d\ude00"', "a lone surrogate in a string"),
        (r'"\ud800', "Input data was truncated"),
        (r'"\\ud800', "Input data was truncated"),
    ],
)
async def test_a_body_that_is_no_json_is_refused_for_its_own_reason(
    text: str, reason: str, shared_example: Any
) -> None:
    status, frame = await shared_example.post("/rpc/memory.search", f'{{"query":{text}}}'.encode())
    assert (status, frame["error"]["message"]) == (400, f"body is not valid JSON: {reason}")
    for whole in (r"\ud83d\ude00 boiler", r"\\ud800 boiler"):
        status, _ = await shared_example.post("/rpc/memory.search", f'{{"query":"{whole}"}}'.encode())
        assert status == 200


async def test_what_fails_after_parsing_is_unavailable_with_a_stable_code(shared_example: Any) -> None:
    status, error = await shared_example.error(GET, {"reference": {"providerId": "other", "id": "MEMORY.md"}})
    assert status == 503
    assert error["code"] == "UNAVAILABLE"
    assert error["message"] == "memory reference belongs to a different provider"
    assert error["details"] == {"code": "FOREIGN_REFERENCE"}
    status, error = await shared_example.error(SEARCH, {"version": 2, "query": "x", "sources": ["sessions"]})
    assert status == 503
    assert error["message"] == "memory provider does not support the sessions source capability"
    assert error["details"] == {"code": "CAPABILITY_UNSUPPORTED"}


async def test_two_agents_without_a_default_need_to_be_named(
    launcher: Any, tmp_path: Path, write: Any
) -> None:
    write(tmp_path / "one", {"MEMORY.md": "- first marker\n"})
    write(tmp_path / "two", {"MEMORY.md": "- second marker\n"})
    config = tmp_path / "two-agents.toml"
    config.write_text(
        f'[agents.one]\nworkspace = "{tmp_path}/one"\n[agents.Two]\nworkspace = "{tmp_path}/two"\n'
        "serve_v1 = false\n"
    )
    service = launcher.serve(None, "--config", str(config))
    await service.ready()
    assert await service.error(SEARCH, {"query": "marker"}) == (
        400,
        {"code": "INVALID_REQUEST", "message": AMBIGUOUS.format("search")},
    )
    for method, params in ((SEARCH, {"version": 2, "query": "x"}), (GET, {"reference": OWN}), (STATUS, {})):
        assert await service.error(method, params) == (
            400,
            {"code": "INVALID_REQUEST", "message": AMBIGUOUS.format("provider")},
        )
    assert await service.error(SEARCH, {"query": "marker", "agentId": "two"}) == (
        400,
        {
            "code": "INVALID_REQUEST",
            "message": 'memory plugin "memory-sidecar" uses the provider runtime; '
            "retry memory.search with version: 2",
        },
    )
    assert await service.excerpts("marker", agentId=" ONE ") == ["- first marker"]
    assert await service.excerpts("marker", agentId="two") == ["- second marker"]
    assert service.stop() == 0


async def test_a_token_sees_only_its_agents_and_needs_the_read_scope(
    launcher: Any, tmp_path: Path, write: Any
) -> None:
    write(tmp_path / "one", {"MEMORY.md": "- first marker\n"})
    write(tmp_path / "two", {"MEMORY.md": "- second marker\n"})
    secrets = {"ONE_TOKEN": "one-0123456789abcdef", "BARE_TOKEN": "bare-0123456789abcdef"}
    config = tmp_path / "roster.toml"
    config.write_text(
        f'[agents.one]\nworkspace = "{tmp_path}/one"\n[agents.two]\nworkspace = "{tmp_path}/two"\n'
        '[[tokens]]\nname = "one"\nrole = "operator"\nsecret_env = "ONE_TOKEN"\n'
        'scopes = ["operator.read"]\nagents = ["one"]\n'
        '[[tokens]]\nname = "bare"\nrole = "operator"\nsecret_env = "BARE_TOKEN"\nscopes = []\n'
    )
    service = launcher.serve(None, "--config", str(config), environment=secrets)
    service.operator_token = secrets["ONE_TOKEN"]
    await service.ready()
    assert await service.excerpts("marker") == ["- first marker"]
    assert (await service.error(SEARCH, {"query": "x", "agentId": "two"}))[1]["message"] == "unknown agentId"
    service.operator_token = secrets["BARE_TOKEN"]
    assert await service.error(SEARCH, {"query": ""}) == (
        403,
        {
            "code": "FORBIDDEN",
            "message": "missing scope: operator.read",
            "details": {
                "code": "MISSING_SCOPE",
                "missingScope": "operator.read",
                "requiredScopes": ["operator.read"],
            },
        },
    )
    assert service.stop() == 0


@pytest.mark.parametrize("params", [b"null", b"", b"5", b"[]", b'"query"'])
async def test_a_body_that_is_no_params_object_is_refused(shared_example: Any, params: bytes) -> None:
    status, frame = await shared_example.post(f"/rpc/{SEARCH}", params)
    assert status == 400
    assert frame["error"] == {
        "code": "INVALID_REQUEST",
        "message": "the body must be the params, an object; {} where there are none",
    }


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (SEARCH, {"query": "boiler"}),
        (SEARCH, {"version": 2, "query": "boiler"}),
        (GET, {"reference": OWN}),
        (STATUS, {}),
        ("sidecar.refresh", {}),
    ],
)
async def test_a_caller_revoked_after_the_door_admitted_it_gets_nothing(
    example: Any, eventually: Any, method: str, params: dict[str, Any]
) -> None:
    body = json.dumps(params).encode()
    head = (
        f"POST /rpc/{method} HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {example.operator_token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n"
        "Connection: close\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", example.port)
    writer.write(head.encode())
    # It asks for the body in the same turn in which the door lets it in.
    assert b" 100 " in await asyncio.wait_for(reader.readline(), 20)
    replacement = secrets.token_urlsafe(32)
    (example.state / "operator.token").write_text(replacement)

    async def rotated() -> bool:
        return (await example.post(f"/rpc/{STATUS}", {}, token=replacement))[0] == 200

    await eventually(rotated)
    writer.write(body)
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    start, _, text = answer.lstrip(b"\r\n").partition(b"\r\n\r\n")
    assert start.startswith(b"HTTP/1.1 503 ")
    assert json.loads(text)["error"] == {
        "code": "UNAVAILABLE",
        "message": "Memory request authority is no longer active",
        "details": {"code": "ACCESS_DENIED"},
    }
