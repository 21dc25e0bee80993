"""How an agent itself writes: the documented routes, spoken to the stub and to the real server alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import aiohttp

FAMILY = "atomic-memory"


def key_of(name: str) -> dict[str, str]:
    """What the server binds a scope to."""
    kind = "project" if ":project:" in name else "agent"
    return {"integration": "openclaw-sidecar", "kind": kind, "external_id": name}


@dataclass
class AgentMemory:
    """Writes under scope keys as `openclaw:agent:main` and `openclaw:agent:main:project:x`."""

    url: str
    token: str
    session: aiohttp.ClientSession
    scopes: dict[str, str] = field(default_factory=dict)

    async def call(self, verb: str, path: str, body: Any = None, **headers: str) -> Any:
        async with self.session.request(
            verb,
            self.url + path,
            json=body,
            headers={"Authorization": f"Bearer {self.token}", **headers},
        ) as response:
            answer = await response.json()
            assert response.status < 300, (path, response.status, answer)
            return answer

    async def scope(self, name: str) -> str:
        """The scope of a key, made and bound where there is none."""
        if name in self.scopes:
            return self.scopes[name]
        key = key_of(name)
        async with self.session.post(
            f"{self.url}/v1/scope-bindings/resolve",
            json={"binding_keys": [key], "allow_default": False},
            headers={"Authorization": f"Bearer {self.token}"},
        ) as response:
            if response.status == 200:
                return self.scopes.setdefault(name, (await response.json())["scope_id"])
        return await self.make_scope(name)

    async def make_scope(self, name: str) -> str:
        """A scope of a key that has none."""
        made = await self.call(
            "POST", "/v1/scopes", {"title": "memory", "summary": "memory", "idempotency_key": name}
        )
        await self.call("PUT", "/v1/scope-bindings", {"key": key_of(name), "scope_id": made["scope_id"]})
        return self.scopes.setdefault(name, made["scope_id"])

    async def remember(self, name: str, text: str) -> str:
        """A new record under a key; its id."""
        scope_id = await self.scope(name)
        answer = await self.call(
            "POST", "/v1/memory/remember", {"scope_id": scope_id, "kind": "fact", "text": text}
        )
        return str(answer["records"][0]["artifact"]["artifact_id"])

    async def revise(self, name: str, artifact_id: str, text: str, *, revision: int = 1) -> None:
        path = f"/v1/scopes/{await self.scope(name)}/artifacts/{FAMILY}/{artifact_id}"
        body = {"content": {"kind": "fact", "text": text}}
        await self.call("PUT", path, body, **{"If-Match": f'"revision:{revision}"'})

    async def forget(self, name: str, artifact_id: str, *, revision: int = 1) -> None:
        artifact = {"family": FAMILY, "artifact_id": artifact_id, "revision": revision}
        target = {"artifact": artifact, "state_version": 0}
        body = {"scope_id": await self.scope(name), "target": target, "state": "forgotten"}
        await self.call("POST", "/v1/atomic-memory/lifecycle", body)

    async def listed(self, name: str, *, states: tuple[str, ...] = ("active",)) -> list[str]:
        """The texts under a key."""
        texts, cursor = [], None
        while True:
            body = {
                "scope_id": await self.scope(name),
                "limit": 100,
                "states": list(states),
                "cursor": cursor,
            }
            page = await self.call("POST", "/v1/atomic-memory/list", body)
            texts += [item["text"] for item in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                return texts
