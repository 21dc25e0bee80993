"""The OpenAPI 3.1 document (spec §4), made of the rule tables that parameters are checked with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sidecar.wire import schemas
from sidecar.wire.kinds import Schema, schema_of
from sidecar.wire.methods import METHODS, Described
from sidecar.wire.rules import Rule
from sidecar.wire.schemas import ref

JSON = "application/json"
_REFUSALS = {
    "400": "A malformed request, frame, method, parameter or agent",
    "401": "No token or a wrong one",
    "403": "A Host, Origin, role or scope that is not accepted",
    "408": "The body did not arrive in time",
    "413": "The body is over 1 MiB",
    "415": "The body is not plain application/json",
    "503": "What fails after parsing; details.code says what",
}
_AT_EVERY_DOOR = ("400", "401", "403", "503")


def document(*, version: str, methods: Iterable[str], routes: Iterable[str]) -> dict[str, object]:
    """The document of a service that has these methods and routes (`/rpc/{method}` stands for each method).

    A method without an entry in `METHODS` is left out.
    """
    described = {name: METHODS[name] for name in sorted(methods) if name in METHODS}
    served = frozenset(routes)
    paths: dict[str, Schema] = {
        path: {"post" if path == "/rpc" else "get": operation}
        for path, operation in _plain_paths(described).items()
        if path in served
    }
    if "/rpc/{method}" in served:
        paths |= {f"/rpc/{name}": _method_path(name, entry) for name, entry in described.items()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Memory Sidecar",
            "version": version,
            "summary": "Read-only memory search beside an agent",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas.components(),
        },
    }


def params_schema(rules: Sequence[Rule]) -> Schema:
    """The schema of the objects that a rule table admits. Raises `LookupError` for a rule without one."""
    root = _Node()
    for rule in rules:
        node = root
        for key in rule.path:
            node = node.children.setdefault(key, _Node())
        node.add(rule)
    return root.schema() | {"type": "object"}


class _Node:
    """One property, and those below it, while the rules about it are put together."""

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self._schemas: list[Schema] = []
        self._messages: dict[str, None] = {}
        self._required = False

    def add(self, rule: Rule) -> None:
        schema = schema_of(rule.holds)
        if schema not in self._schemas:
            self._schemas.append(schema)
        self._messages.setdefault(rule.message)
        self._required = self._required or rule.required

    @property
    def required(self) -> bool:
        """A rule that requires what is inside of an object requires the object."""
        return self._required or any(child.required for child in self.children.values())

    def schema(self) -> Schema:
        out = _both(self._schemas)
        if self._messages:
            out["description"] = "; ".join(self._messages)
        if self.children:
            out["properties"] = {key: child.schema() for key, child in self.children.items()}
            required = [key for key, child in self.children.items() if child.required]
            if required:
                out |= {"type": "object", "required": required}
        return out


def _both(parts: Sequence[Schema]) -> Schema:
    """What all of some schemas admit: one schema where their keywords do not meet."""
    merged: Schema = {}
    for part in parts:
        if any(merged.get(key, value) != value for key, value in part.items()):
            return {"allOf": list(parts)}
        merged |= part
    return merged


def _method_path(name: str, entry: Described) -> Schema:
    forms = [params_schema(rules) for rules in entry.params]
    only = f" (role {entry.role} only)" if entry.role else ""
    return {
        "post": {
            "operationId": name,
            "summary": entry.summary + only,
            "requestBody": {"required": True, "content": {JSON: {"schema": _any_of(forms)}}},
            "responses": _rpc_responses([entry]),
        }
    }


def _plain_paths(described: Mapping[str, Described]) -> dict[str, Schema]:
    """The paths that are no method, by route."""
    live = schemas.shape({"status": {"const": "live"}})
    agents: Schema = {"type": "object", "additionalProperties": _COUNTS}
    ready = schemas.shape({"status": {"enum": ["ready", "starting"]}, "agents": agents})
    figures = {"description": "The figures", "content": {"text/plain": {"schema": schemas.STRING}}}
    socket = {"description": "A WebSocket; its first `connect` request may carry `auth.token` instead"}
    frame: Schema = {"required": True, "content": {JSON: {"schema": ref("RequestFrame")}}}
    page = {"description": "The page", "content": {"text/html": {"schema": schemas.STRING}}}
    return {
        "/": _get("page", "A page to search with by hand; no data is in it", {"200": page})
        | {"security": []},
        "/healthz": _get("healthz", "Whether the process lives", {"200": _answer("It does", live)})
        | {"security": []},
        "/readyz": _get(
            "readyz",
            "Whether the first scan of every agent of the token is indexed",
            {
                "200": _answer("It is", ready),
                "503": _answer("Not yet, or busy", _any_of([ready, ref("Refusal")])),
            },
        ),
        "/metrics": _get(
            "metrics",
            "Figures for Prometheus; for a token of every agent, or operator.admin",
            {"200": figures},
        ),
        "/openapi.json": _get("openapi", "This document", {"200": _answer("The document", schemas.FREE)}),
        "/ws": _get("websocket", "Frames over a WebSocket; rpc.cancel with an id cancels it", {"101": socket})
        | {"security": [{}, {"token": []}]},
        "/rpc": {
            "operationId": "rpc",
            "summary": "A gateway request frame in, a response frame out",
            "requestBody": frame,
            "responses": _rpc_responses(described.values()),
        },
    }


def _get(operation: str, summary: str, responses: Schema) -> Schema:
    """An operation without a body, refused as every door refuses."""
    return {
        "operationId": operation,
        "summary": summary,
        "responses": {**_refused(*_AT_EVERY_DOOR), **responses},
    }


_COUNTS = schemas.shape(
    {
        "indexed": schemas.COUNT,
        "pending": schemas.COUNT,
        "onDisk": {"type": ["integer", "null"], "minimum": 0},
    }
)


def _rpc_responses(entries: Iterable[Described]) -> Schema:
    results = list(dict.fromkeys(name for entry in entries for name in entry.results))
    payload = _any_of([ref(name) for name in results])
    return {"200": _answer("A response frame", schemas.success(payload)), **_refused(*_REFUSALS)}


def _any_of(choices: list[Schema]) -> Schema:
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


def _answer(description: str, schema: Schema) -> Schema:
    return {"description": description, "content": {JSON: {"schema": schema}}}


def _refused(*statuses: str) -> dict[str, object]:
    refusals: dict[str, object] = {status: _answer(_REFUSALS[status], ref("Refusal")) for status in statuses}
    if "503" in refusals:
        retry = {"description": "Seconds, where retryAfterMs is set", "schema": schemas.COUNT}
        refusals["503"] = _answer(_REFUSALS["503"], ref("Refusal")) | {"headers": {"Retry-After": retry}}
    return refusals
