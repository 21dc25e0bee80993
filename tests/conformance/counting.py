"""A provider in front of a provider: counts what reaches it, and misbehaves when told to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Counting:
    """Wraps a provider. `calls` are the methods that its handles were asked for, in order."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.calls: list[str] = []
        self.handles = 0
        self.failure: Exception | None = None
        self.alter: Callable[[Any], Any] = lambda result: result
        self.provider_id = inner.provider_id
        if hasattr(inner, "adapter"):
            self.adapter = inner.adapter

    def behave(self) -> None:
        self.calls.clear()
        self.failure = None
        self.alter = lambda result: result

    async def open(self, agent_id: str, context: Any, purpose: Any) -> Any:
        handle = await self.inner.open(agent_id, context, purpose)
        self.handles += 1
        return _Counted(self, handle)


class _Counted:
    def __init__(self, counting: Counting, handle: Any) -> None:
        self._counting = counting
        self._handle = handle

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._handle, name)
        if name not in ("search", "get", "candidates", "health"):
            return found

        async def called(*arguments: Any) -> Any:
            self._counting.calls.append(name)
            if self._counting.failure is not None:
                raise self._counting.failure
            return self._counting.alter(await found(*arguments))

        return called

    async def close(self) -> None:
        self._counting.handles -= 1
        await self._handle.close()
