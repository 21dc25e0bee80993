"""A PowerContext server in miniature on loopback: shapes recorded from 1.4.1, in memory, faults to order.

The suite that runs over the real server runs over this one too, so the two cannot drift apart unseen.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

TOKEN = "stub-token-0123456789abcdef"
FAMILY = "atomic-memory"
Fault = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


@dataclass
class Record:
    artifact_id: str
    scope_id: str
    revisions: list[tuple[str, str]]
    state: str = "active"
    state_version: int = 0

    @property
    def name(self) -> dict[str, Any]:
        return {"family": FAMILY, "artifact_id": self.artifact_id, "revision": len(self.revisions)}

    def listed(self) -> dict[str, Any]:
        kind, text = self.revisions[-1]
        return {"artifact": self.name, "kind": kind, "text": text, **self.state_fields()}

    def state_fields(self) -> dict[str, Any]:
        return {"state": self.state, "state_version": self.state_version, "merged_into_id": None}

    def at(self, revision: int) -> dict[str, Any]:
        return {
            "scope_id": self.scope_id,
            "family": FAMILY,
            "artifact_id": self.artifact_id,
            "revision": revision,
            "content": content(*self.revisions[revision - 1]),
            "content_digest": "sha256:0",
            "created_at": "2026-11-30T12:00:00Z",
        }


@dataclass
class StoreStub:
    """`fault` may answer in place of the store; `calls` are the paths that were asked."""

    server_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    contract: tuple[int, int] = (1, 4)
    features: dict[str, Any] = field(default_factory=lambda: {"memory.explicit": {}})
    modes: list[str] = field(default_factory=lambda: ["auto", "fts"])
    token: str = TOKEN
    fault: Fault | None = None
    calls: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    made: dict[str, Any] = field(default_factory=dict)
    scopes: dict[str, str] = field(default_factory=dict)
    bindings: dict[str, str] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)
    distances: dict[str, float] = field(default_factory=dict)
    port: int = 0
    runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        app = web.Application(middlewares=[self._door()])
        scoped = f"/v1/scopes/{{scope}}/artifacts/{FAMILY}"
        app.add_routes(
            [
                web.get("/health/ready", self.ready),
                web.get("/v1/server-info", self.info),
                web.get("/v1/capabilities", self.capabilities),
                web.post("/v1/scopes", self.make_scope),
                web.put("/v1/scope-bindings", self.bind),
                web.post("/v1/scope-bindings/resolve", self.resolve),
                web.post("/v1/memory/remember", self.remember),
                web.post("/v1/atomic-memory/lifecycle", self.lifecycle),
                web.post("/v1/atomic-memory/list", self.list),
                web.post(f"{scoped}/search", self.search),
                web.get(f"{scoped}/{{id}}", self.head),
                web.put(f"{scoped}/{{id}}", self.revise),
                web.get(f"{scoped}/{{id}}/state", self.state),
                web.get(f"{scoped}/{{id}}/revisions/{{number}}", self.revision),
            ]
        )
        self.runner = web.AppRunner(app, shutdown_timeout=0.05)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self.runner.addresses[0][1]

    async def stop(self) -> None:
        if self.runner is not None:
            await self.runner.cleanup()
            self.runner = None

    def _door(self) -> Any:
        @web.middleware
        async def door(request: web.Request, handler: Any) -> web.StreamResponse:
            self.calls.append(request.path)
            if self.fault is not None and (answer := await self.fault(request)) is not None:
                return answer
            if (
                request.path.startswith("/v1")
                and request.headers.get("Authorization") != f"Bearer {self.token}"
            ):
                return error(401, "unauthorized")
            if request.can_read_body:
                self.bodies.append(await request.json())
            try:
                response: web.StreamResponse = await handler(request)
            except web.HTTPNotFound:
                return web.json_response({"detail": "Not Found"}, status=404)
            return response

        return door

    async def ready(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ready", "checks": {}})

    async def info(self, _: web.Request) -> web.Response:
        major, minor = self.contract
        return web.json_response(
            {
                "product": "powercontext",
                "server_id": self.server_id,
                "package_version": "1.4.1",
                "api_contract_version": {"major": major, "minor": minor},
                "feature_contracts": self.features,
            }
        )

    async def capabilities(self, _: web.Request) -> web.Response:
        return web.json_response({"memory_extraction": False, "search_modes": self.modes})

    async def make_scope(self, request: web.Request) -> web.Response:
        body = await request.json()
        if self.made.setdefault(body["idempotency_key"], body) != body:
            return error(409, "scope_idempotency_conflict")
        scope_id = self.scopes.setdefault(body["idempotency_key"], f"scp_{uuid.uuid4().hex[:26]}")
        return web.json_response(scope_of(scope_id), status=201)

    async def bind(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bindings[json.dumps(body["key"], sort_keys=True)] = body["scope_id"]
        return web.json_response(body)

    async def resolve(self, request: web.Request) -> web.Response:
        body = await request.json()
        for key in body["binding_keys"]:
            if (scope_id := self.bindings.get(json.dumps(key, sort_keys=True))) is not None:
                return web.json_response(scope_of(scope_id))
        if body.get("allow_default", True):
            return web.json_response(scope_of("scp_default"))
        return error(404, "scope_not_found")

    async def remember(self, request: web.Request) -> web.Response:
        body = await request.json()
        if body["scope_id"] not in self.scopes.values():
            return error(404, "scope_not_found")
        if len(body["text"].encode()) > 8192:
            return error(422, "invalid_access_request")
        record = Record(f"art_{uuid.uuid4().hex}", body["scope_id"], [(body["kind"], body["text"].strip())])
        self.records[record.artifact_id] = record
        return web.json_response({"changed": True, "records": [record.listed()]})

    async def list(self, request: web.Request) -> web.Response:
        body = await request.json()
        states = body.get("states") or ["active"]
        mine = [r for r in self.records.values() if r.scope_id == body["scope_id"] and r.state in states]
        mine.sort(key=lambda record: record.artifact_id)
        after, limit = body.get("cursor") or "", body.get("limit", 50)
        page = [record for record in mine if record.artifact_id > after][:limit]
        more = bool(page) and page[-1] is not mine[-1]
        cursor = page[-1].artifact_id if more else None
        return web.json_response({"items": [record.listed() for record in page], "next_cursor": cursor})

    async def search(self, request: web.Request) -> web.Response:
        body = await request.json()
        if request.match_info["scope"] not in self.scopes.values():
            return error(404, "scope_not_found")
        mode = body.get("mode", "text")
        if mode == "hybrid" and "hybrid" not in self.modes:
            return error(422, "artifact_search_not_supported")
        if not body["query"].strip():
            return error(422, "invalid_access_request")
        wanted = words(body["query"])
        results = []
        for record in self.records.values():
            if record.scope_id != request.match_info["scope"] or record.state != "active":
                continue
            matched = wanted & words(record.revisions[-1][1])
            channels: dict[str, Any] = {}
            if matched:
                channels["text"] = {"raw": -float(len(matched)), "metric": "sqlite_bm25"}
            if mode == "hybrid" and record.artifact_id in self.distances:
                channels["vector"] = {"raw": self.distances[record.artifact_id], "metric": "l2_distance"}
            if channels:
                results.append((-len(matched), record, channels))
        results.sort(key=lambda found: found[0])
        return web.json_response(
            {
                "results": [
                    {
                        **record.name,
                        "content": content(*record.revisions[-1]),
                        "lineage": {"sources": [], "artifacts": []},
                        "scores": {"retrieval": 61 / (61 + place), "channels": channels},
                    }
                    for place, (_, record, channels) in enumerate(results[: body["limit"]])
                ]
            }
        )

    def _record(self, request: web.Request) -> Record | None:
        record = self.records.get(request.match_info["id"])
        return record if record is not None and record.scope_id == request.match_info["scope"] else None

    async def head(self, request: web.Request) -> web.Response:
        record = self._record(request)
        return gone() if record is None else web.json_response(record.at(len(record.revisions)))

    async def revision(self, request: web.Request) -> web.Response:
        record, number = self._record(request), int(request.match_info["number"])
        if record is None or not 1 <= number <= len(record.revisions):
            return gone()
        return web.json_response(record.at(number))

    async def state(self, request: web.Request) -> web.Response:
        record = self._record(request)
        if record is None:
            return gone()
        return web.json_response({"artifact": record.name, **record.state_fields()})

    async def revise(self, request: web.Request) -> web.Response:
        record, body = self._record(request), await request.json()
        if record is None:
            return gone()
        if request.headers.get("If-Match") != f'"revision:{len(record.revisions)}"':
            return error(412, "revision_conflict")
        record.revisions.append((body["content"]["kind"], body["content"]["text"]))
        return web.json_response(record.at(len(record.revisions)))

    async def lifecycle(self, request: web.Request) -> web.Response:
        body = await request.json()
        target = body["target"]
        record = self.records.get(target["artifact"]["artifact_id"])
        if record is None or record.scope_id != body["scope_id"]:
            return gone()
        if (target["artifact"]["revision"], target["state_version"]) != (
            len(record.revisions),
            record.state_version,
        ):
            return error(409, "revision_conflict")
        record.state, record.state_version = body["state"], record.state_version + 1
        return web.json_response({"changed": True, "records": [record.listed()]})


def content(kind: str, text: str) -> dict[str, Any]:
    return {"schema": "powercontext.atomic-memory.v1", "kind": kind, "text": text, "creation": None}


def scope_of(scope_id: str) -> dict[str, Any]:
    return {"scope_id": scope_id, "title": "t", "summary": "s", "parent_scope_id": None, "version": 1}


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def error(status: int, code: str, **headers: str) -> web.Response:
    body = {"error": {"code": code, "message": "said by the server", "details": None}}
    return web.json_response(body, status=status, headers=headers)


def gone() -> web.Response:
    return error(404, "artifact_not_found")


async def hang(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def drip(request: web.Request) -> web.StreamResponse:
    """A byte now and then for ever: each one comes in time, the whole never does."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.02)


def answering(make: Callable[[], web.StreamResponse]) -> Fault:
    async def fault(_: web.Request) -> web.StreamResponse:
        return make()

    return fault


async def half_a_body(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000", "Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b'{"results": [')
    assert request.transport is not None
    request.transport.close()
    return response
