"""Which agent a request means, as one token sees the agents (spec §3, U§2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from sidecar.domain.agents import normalise_agent_id
from sidecar.domain.authority import Principal
from sidecar.domain.errors import InvalidRequest, UnknownAgent

_AGENT_KEY = re.compile(r"\s*agent:([^:]*)", re.IGNORECASE)
Subject = Literal["memory search", "memory provider"]


def visible_agents(principal: Principal, configured: Sequence[str]) -> tuple[str, ...]:
    """The configured agents that a token may name, in configured order."""
    if principal.agents is None:
        return tuple(configured)
    return tuple(agent for agent in configured if agent in principal.agents)


def sees_every_agent(principal: Principal, configured: Sequence[str]) -> bool:
    """Whether a token may name every configured agent, and so ask what concerns them all (spec §3)."""
    return len(visible_agents(principal, configured)) == len(configured)


def resolve_agent(named: str | None, roster: Sequence[str], default: str | None, *, subject: Subject) -> str:
    """The agent id of a request; raises `InvalidRequest` with upstream's exact words.

    Without a name it is the sole agent of the roster, or the default agent if the roster holds it.
    """
    if named is not None:
        agent_id = normalise_agent_id(named)
        if agent_id is None or agent_id not in roster:
            raise UnknownAgent
        return agent_id
    if len(roster) == 1:
        return roster[0]
    if default is not None and default in roster:
        return default
    raise InvalidRequest(
        f"Multiple agents are configured, but {subject} has no explicit owner. "
        "Pass agentId to select a configured agent."
    )


def check_session_keys(keys: Iterable[str], roster: Sequence[str]) -> None:
    """Raise `InvalidRequest` when a session key names an agent that the token may not name (spec §3).

    A key that names no agent (`global`) says nothing about one.
    """
    for key in keys:
        named = _AGENT_KEY.match(key)
        if named is not None and normalise_agent_id(named[1]) not in roster:
            raise UnknownAgent
