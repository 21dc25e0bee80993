"""Hostile requests: frames, parameters, references, fragments, cursors, routes, heads, raw bytes.

Each kind is made from well-formed requests with something wrong at a chosen place, since what is wrong
everywhere is refused at once. The same seed gives the same requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any
from urllib.parse import quote

import msgspec

METHODS = (
    "memory.search",
    "memory.get",
    "memory.status",
    "sidecar.caller",
    "sidecar.capabilities",
    "sidecar.explain",
    "sidecar.search",
    "sidecar.notes",
    "memory.write",
    "",
    "../rpc",
    "a/b",
)
_TEXTS = (
    "", " ", "\t\n", "x", "boiler", "who serviced the boiler?", "\ufeff", "\x00", "\u202e", "é" * 40,
    "猫の名前", "🦊" * 9, '"', "\\", "AND OR NOT", "title:*", "a" * 9000, "%s%n", "' OR 1=1 --", "{{7*7}}",
    "$(id)", "-1", "١٢٣", "ﬃ", "a\u0301" * 20, "\u200b", "../", "null", "𒀀",
)  # fmt: skip
_PATHS = (
    "MEMORY.md", "USER.md", "memory/2026-11-28.md", "../MEMORY.md", "../../../../etc/passwd", "/etc/passwd",
    "memory/../MEMORY.md", "memory//MEMORY.md", "./MEMORY.md", "MEMORY.md/", "MEMORY.md\x00.md", "memory.md",
    "memory", "", ".", "..", "~", "C:\\Windows\\win.ini", "\\\\host\\share", "CON", "nul.md", "/dev/zero",
    "/proc/self/environ", "memory/%2e%2e/%2e%2e/etc/passwd", "file:///etc/passwd",
    "memory/" + "a/" * 300 + "x.md", "x" * 5000,
    "memory/\u202emd.a", "sessions/main/x.jsonl", "MEMORY.MD", "memory/\n.md", ".git/config",
)  # fmt: skip
_FRAGMENTS = (
    "L1-L1", "L1-L2", "L0-L0", "L2-L1", "L1", "L-1-L2", "L1-L99999999999999999999", "L7-L7@c9000-9700",
    "L1-L1@c0-5", "L1-L1@c5-0", "L1-L2@c0-1", "l1-l1", "L1-L1 ", "#L1", "L１-L１", "L1-L1@c-1-5", "x",
    "L" * 3000,
)  # fmt: skip
_NUMBERS = (0, 1, 2, -1, 3.0, 2.5, 50, 999, 10**6, 10**18, 2**63, 2**64, 1e308, -1e308, 1e-320, -0.0)
_FIELDS = (
    "query", "version", "maxResults", "minScore", "cursor", "sources", "agentId", "reference", "from",
    "lines", "lexicalOnly", "activeProjectKeys", "path", "since", "until", "maxChars", "after", "limit",
    "__proto__", "constructor", "",
)  # fmt: skip
_LITERALS = (
    "NaN",
    "1e999",
    "-Infinity",
    '"\\ud800"',
    "[" * 2000,
    '{"a":' * 600,
    "01",
    "'x'",
    "",
    "undefined",
)
_HEADS = (
    "Host: evil.example", "Host:", "Host: localhost:99999", "Origin: null", "Origin: http://evil.example",
    "Authorization: Basic eDp5", "Authorization: Bearer", "Authorization: Bearer " + "z" * 43,
    "Content-Type: text/plain", "Content-Type: application/json; charset=utf-16", "Content-Type: \x7f",
    "Content-Encoding: gzip", "Content-Encoding: identity", "Expect: 100-continue", "Expect: nonsense",
    "X-Long: " + "y" * 15_000, "Accept-Encoding: br", "Upgrade: h2c", "Cookie: a=b", "Range: bytes=0-1",
    "X-HTTP-Method-Override: DELETE", "Forwarded: for=127.0.0.1", "Connection: close",
    "Transfer-Encoding: gzip",
)  # fmt: skip
_ROUTES = (
    "/", "//", "/rpc/", "/rpc//", "/rpc/..", "/rpc/../healthz", "/healthz/", "/HEALTHZ", "/%00",
    "/%2e%2e/rpc", "/rpc/%2e%2e", "/rpc/memory%2Esearch", "/rpc/%FF%FE", "/rpc?x=1", "/readyz?" + "q" * 3000,
    "/metrics", "/openapi.json", "/ws", "/.git/config", "/rpc/memory.search/x", "/rpc/" + "m" * 3000, "*", "http://a/rpc",
)  # fmt: skip
_VERBS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "get", "FROBNICATE")


class Hostile(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `whole`: it is complete HTTP, so that an answer is due; `head`: its answer has no body."""

    kind: str
    data: bytes
    whole: bool = True
    head: bool = False


class Requests:
    """An endless supply of hostile requests for one service."""

    def __init__(self, random: Random, *, token: str, provider_id: str = "memory-sidecar") -> None:
        self._random = random
        self._token = token
        self._provider = provider_id
        makers: tuple[tuple[Callable[[], Hostile], int], ...] = (
            (self._params, 30),
            (self._frame, 22),
            (self._reference, 22),
            (self._route, 10),
            (self._head, 8),
            (self._search, 4),
            (self._junk, 3),
            (self._bytes, 1),
        )
        self._makers = [maker for maker, _ in makers]
        self._weights = [weight for _, weight in makers]

    def next(self) -> Hostile:
        """The next one."""
        return self._random.choices(self._makers, self._weights)[0]()

    def _one(self, choices: Sequence[Any]) -> Any:
        return self._random.choice(choices)

    def _value(self, depth: int = 0) -> Any:
        """Any JSON value, chosen where programs stumble."""
        roll = self._random.random()
        if roll < 0.35:
            return self._one(_TEXTS)
        if roll < 0.6:
            return self._one(_NUMBERS)
        if roll < 0.75 or depth > 3:
            return self._one((None, True, False, [], {}))
        if roll < 0.88:
            return [self._value(depth + 1) for _ in range(self._random.randrange(4))]
        return {self._one(_FIELDS): self._value(depth + 1) for _ in range(self._random.randrange(4))}

    def _post(self, route: str, body: bytes, *lines: str, verb: str = "POST") -> bytes:
        head = [
            f"{verb} {route} HTTP/1.1",
            "Host: localhost",
            f"Authorization: Bearer {self._token}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        ]
        named = {line.partition(":")[0].lower() for line in lines}
        head[1:] = [line for line in head[1:] if line.partition(":")[0].lower() not in named]
        return "\r\n".join([*head, *lines, "", ""]).encode("utf-8", "surrogatepass") + body

    def _call(self, kind: str, method: str, params: Any) -> Hostile:
        if self._random.random() < 0.5:
            body, route = json.dumps(params), f"/rpc/{quote(method)}"
        else:
            frame = {"type": "req", "id": self._one(_TEXTS) or "1", "method": method, "params": params}
            body, route = json.dumps(frame), "/rpc"
        return Hostile(kind=kind, data=self._post(route, body.encode()))

    def _params(self) -> Hostile:
        params = {self._one(_FIELDS): self._value() for _ in range(self._random.randrange(5))}
        method = self._one(METHODS[:5])
        if self._random.random() < 0.5:
            # Only one field is wrong, and nothing is found: the checks are what is tried.
            params = {"version": 2, "query": "zzyzx", "maxResults": 1} | dict(list(params.items())[:1])
        return self._call("params", method, params)

    def _reference(self) -> Hostile:
        reference: dict[str, Any] = {"providerId": self._provider, "id": self._one(_PATHS)}
        if self._random.random() < 0.6:
            reference["fragment"] = self._one(_FRAGMENTS)
        if self._random.random() < 0.3:
            reference["revision"] = self._one(("0" * 40, "f" * 39, "zz", "../x", "0" * 5000))
        if self._random.random() < 0.1:
            reference[self._one(("providerId", "id", "fragment", "revision", "more"))] = self._value()
        params: dict[str, Any] = {"reference": reference}
        for name in ("from", "lines"):
            if self._random.random() < 0.3:
                params[name] = self._one(_NUMBERS)
        return self._call("reference", "memory.get", params)

    def _frame(self) -> Hostile:
        frame: dict[str, Any] = {"type": "req", "id": "1", "method": self._one(METHODS), "params": {}}
        for _ in range(self._random.randrange(1, 4)):
            key = self._one(("type", "id", "method", "params", "traceparent", "expectedProfileId", "x", ""))
            if self._random.random() < 0.3:
                frame.pop(key, None)
            else:
                frame[key] = self._value()
        body = json.dumps(frame)
        if self._random.random() < 0.4:
            at = self._random.randrange(len(body))
            body = body[:at] + self._one(_LITERALS) + body[at + self._random.randrange(3) :]
        return Hostile(kind="frame", data=self._post("/rpc", body.encode("utf-8", "surrogatepass")))

    def _search(self) -> Hostile:
        """Queries that reach the engines."""
        words = " ".join(self._one(_TEXTS) for _ in range(self._random.randrange(1, 5)))
        params: dict[str, Any] = {"version": self._one((1, 2)), "query": words, "maxResults": 5}
        if self._random.random() < 0.3:
            params["cursor"] = self._one(_TEXTS)
        return self._call("search", "memory.search", params)

    def _route(self) -> Hostile:
        verb, route = self._one(_VERBS), self._one((*_ROUTES, "/rpc", "/healthz", "/readyz"))
        return Hostile(kind="route", data=self._post(route, b"", verb=verb), head=verb == "HEAD")

    def _head(self) -> Hostile:
        lines = {
            line.partition(":")[0]: line for line in self._random.sample(_HEADS, self._random.randrange(1, 4))
        }
        return Hostile(kind="head", data=self._post("/rpc/memory.status", b"{}", *lines.values()))

    def _junk(self) -> Hostile:
        """A body of bytes that are no JSON."""
        body = self._random.randbytes(self._random.randrange(200))
        return Hostile(kind="junk", data=self._post(self._one(("/rpc", "/rpc/memory.search")), body))

    def _bytes(self) -> Hostile:
        """A well-formed request with bytes changed anywhere: what is due then depends on where."""
        data = bytearray(self._call("bytes", "memory.status", {}).data)
        for _ in range(self._random.randrange(1, 6)):
            at = self._random.randrange(len(data))
            data[at : at + self._random.randrange(3)] = self._random.randbytes(self._random.randrange(3))
        return Hostile(kind="bytes", data=bytes(data), whole=False)
