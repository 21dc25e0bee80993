"""No call of an agent, or of a project of it, gives what is another's: over the stub and the real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytestmark = pytest.mark.slow

AGENTS = [f"canary-{number}" for number in range(20)]
PROJECTS = [None, *(f"github.com/canary/{number}" for number in range(5))]
PARTITIONS = [(agent, project) for agent in AGENTS for project in PROJECTS]
AT_ONCE = 4


def canary(agent: str, project: str | None) -> str:
    return f"canary of {agent} in {project or 'no project'}"


@pytest.fixture
async def crowded(store: Any, memory: Any, launcher: Any) -> AsyncIterator[Any]:
    """A service for twenty agents of one store, each with a canary, and one in each of five projects."""
    # One after another: the server refuses scopes that are made at the same time.
    for agent, project in PARTITIONS:
        name = f"openclaw:agent:{agent}" + (f":project:{project}" if project else "")
        await memory.make_scope(name)
        await memory.remember(name, canary(agent, project))
    path = launcher.directory / "config.toml"
    path.write_text(
        "".join(
            f'[agents.{agent}]\nprovider = "powercontext"\ndefault = {str(agent == AGENTS[0]).lower()}\n'
            f'[agents.{agent}.powercontext]\nendpoint = "{store.url}"\ntoken_env = "STORE_TOKEN"\n'
            "search_timeout_seconds = 30\ntimeout_seconds = 30\n"
            for agent in AGENTS
        )
    )
    service = launcher.serve(None, "--config", str(path), environment={"STORE_TOKEN": store.token})
    yield service
    assert service.stop() == 0


async def test_no_call_of_an_agent_or_project_ever_gives_the_canary_of_another(crowded: Any) -> None:
    """A hundred and twenty partitions, asked over the wire by operators and by a host, many at once."""
    door = asyncio.Semaphore(AT_ONCE)

    async def call(method: str, params: Any, token: str | None = None) -> Any:
        async with door:
            status, frame = await crowded.post(f"/rpc/{method}", params, token=token)
        assert status == 200, frame
        return frame["payload"]

    async def of_agent(agent: str) -> dict[tuple[str, str | None], Any]:
        """The references of its partitions, each found alone and in its projects together."""
        page = await call(
            "memory.search", {"version": 2, "query": "canary", "maxResults": 50, "agentId": agent}
        )
        assert [hit["excerpt"] for hit in page["hits"]] == [canary(agent, None)]
        found = {(agent, None): page["hits"][0]["reference"]}
        opened = await call(
            "provider.open",
            {"agentId": agent, "authority": {"kind": "operator", "scopes": ["operator.read"]}},
            crowded.host_token,
        )

        async def by_host(*keys: str) -> list[Any]:
            request = {"query": "canary", "maxResults": 50, "activeProjectKeys": list(keys)}
            answer = await call(
                "provider.search", {"lease": opened["lease"], "request": request}, crowded.host_token
            )
            return list(answer["hits"])

        projects = [project for project in PROJECTS if project]
        for project in projects:
            [hit] = await by_host(project)
            assert hit["excerpt"] == canary(agent, project)
            found[agent, project] = hit["reference"]
        together = {hit["excerpt"] for hit in await by_host(*projects)}
        assert together == {canary(agent, project) for project in projects}
        return found

    references: dict[tuple[str, str | None], Any] = {}
    for found in await asyncio.gather(*map(of_agent, AGENTS)):
        references |= found
    assert len({reference["id"] for reference in references.values()}) == len(PARTITIONS)

    async def read(number: int, agent: str, project: str | None) -> None:
        reference = references[agent, project]
        if project in PROJECTS[:2]:
            own = await call("memory.get", {"reference": reference, "agentId": agent})
            assert own["text"] == canary(agent, project)
        stranger = AGENTS[(AGENTS.index(agent) + 1 + number % 19) % 20]
        assert (await call("memory.get", {"reference": reference, "agentId": stranger}))[
            "status"
        ] == "not_found"

    await asyncio.gather(*(read(number, *partition) for number, partition in enumerate(PARTITIONS)))
