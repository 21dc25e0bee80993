"""One method call of a command, asked of whoever answers for this state directory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from sidecar.cli.caller import Payload, open_caller
from sidecar.settings.load import Loaded


def ask(loaded: Loaded, method: str, params: Mapping[str, object]) -> Payload:
    """The payload of one call."""

    async def asked() -> Payload:
        async with open_caller(loaded) as caller:
            return await caller.call(method, params)

    return asyncio.run(asked())
