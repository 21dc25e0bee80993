"""A session of an agent, and what its host does with it over HTTP."""

from __future__ import annotations

import itertools
from typing import Any

NUMBERS = itertools.count(1)
REFERENCE = {"providerId": "memory-sidecar", "id": "MEMORY.md"}


class Chat:
    """A session of its own for each test."""

    def __init__(self, world: Any, agent: str = "pro", chat: str = "direct") -> None:
        number = next(NUMBERS)
        self.world = world
        self.agent = agent
        self.key = f"agent:{agent}:chat-{number}"
        self.row: dict[str, Any] = {
            "sessionKey": self.key,
            "sessionId": f"{number:08x}-0000-4000-8000-000000000000",
            "chatType": chat,
        }

    async def call(self, method: str, **params: Any) -> Any:
        return await self.world.call("host", method, params)

    async def put(self, **changed: Any) -> None:
        assert (await self.call("session.put", **self.row | changed)).status == 200

    async def resolve(self, *, owner: bool = True) -> Any:
        turn = {"agentId": self.agent, "sessionKey": self.key, "sessionId": self.row["sessionId"]}
        answer = await self.call("audience.resolve", **turn, senderIsOwner=owner)
        return answer.payload["audience"]

    async def open(self, audience: Any = None, *, agent: str | None = None, **changed: Any) -> Any:
        authority = {"kind": "session", "sessionKey": self.key, "sandboxed": False} | changed
        if audience is not None:
            authority["audience"] = audience
        return await self.call("provider.open", agentId=agent or self.agent, authority=authority)

    async def search(self, opened: Any) -> Any:
        return await self.call("provider.search", lease=opened.payload["lease"], request={"query": "lantern"})

    async def get(self, opened: Any) -> Any:
        return await self.call(
            "provider.get", lease=opened.payload["lease"], request={"reference": REFERENCE}
        )
