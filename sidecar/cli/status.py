"""`status`: how the memory is, at a glance, or as JSON that scripts can rely on (spec §2)."""

from __future__ import annotations

import asyncio

import click

from sidecar.cli.caller import Payload, chosen_agents, open_caller
from sidecar.cli.options import loaded_of, shared
from sidecar.cli.output import note, print_json
from sidecar.cli.status_view import print_status
from sidecar.settings.load import Loaded
from sidecar.settings.state import lock_holder

ANSWER_SECONDS = 10.0
"""A service that lives says in milliseconds how it is; one that does not in so long hangs."""
EXIT_CODES = {"ready": 0, "degraded": 1, "unavailable": 2}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the payload as JSON; a list for several agents.")
@shared
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> int:
    """Say how the memory is.

    Exits 0 when ready, 1 when degraded, 2 when unavailable. Creates nothing.
    """
    loaded = loaded_of(ctx)
    payloads = _statuses(loaded)
    if as_json:
        print_json(payloads[0] if len(payloads) == 1 else payloads)
    else:
        for payload in payloads:
            print_status(payload)
    return max(EXIT_CODES.get(str(payload.get("status")), 2) for payload in payloads)


def _statuses(loaded: Loaded) -> list[Payload]:
    place = loaded.settings.state_dir
    if not place.exists():
        where = "--state-dir" if loaded.origins.get("state_dir") != "default" else "the workspace"
        return _unavailable(
            loaded, f"there is no state directory {place}", f"run memory-sidecar serve, or correct {where}"
        )
    from sidecar.client import ServiceUnreachable  # brings aiohttp, which `--help` does not need

    try:
        return asyncio.run(_asked(loaded))
    except ServiceUnreachable as failure:
        holder = lock_holder(place)
        process = f" (process {holder})" if holder else ""
        action = f"end process {holder} and start the service again" if holder else "start the service again"
        return _unavailable(loaded, f"{failure.message}{process}", action)


async def _asked(loaded: Loaded) -> list[Payload]:
    from sidecar.client import SidecarClient

    async with open_caller(loaded) as caller:
        asked = [{"agentId": agent_id} for agent_id in chosen_agents(loaded)]
        if isinstance(caller, SidecarClient):
            return [
                await caller.call("memory.status", params, timeout_seconds=ANSWER_SECONDS) for params in asked
            ]
        note("no service is running on this state directory; the index itself was opened")
        return [await caller.call("memory.status", params) for params in asked]


def _unavailable(loaded: Loaded, message: str, action: str) -> list[Payload]:
    """What is said of every agent when nobody can be asked, in the shape of `memory.status`."""
    agents = loaded.settings.agents
    return [
        {
            "version": 2,
            "agentId": agent_id,
            "providerId": agents[agent_id].provider_id,
            "status": "unavailable",
            "message": message,
            "details": {"action": action},
        }
        for agent_id in chosen_agents(loaded)
    ]
