"""The methods as a reader of the OpenAPI document sees them: what they are for, their rules, their results.

One entry a method. A test holds this table together with the dispatcher's, so neither has one that the other
lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from sidecar.wire import rules
from sidecar.wire.rules import Rule


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """One method. `params`: a rule table for each form of its parameters; `results`: names of components."""

    summary: str
    params: tuple[tuple[Rule, ...], ...]
    results: tuple[str, ...]
    role: Literal["operator", "host"] | None = None


METHODS: Mapping[str, Described] = {
    "memory.search": Described(
        summary="Search: file-shaped hits (v1), or hits with provider-scoped references (version 2)",
        params=(rules.SEARCH_V1, (rules.VERSION_2, *rules.SEARCH_V2, *rules.AGENT_V2)),
        results=("SearchV1", "SearchV2"),
    ),
    "memory.get": Described(
        summary="The text that a reference names, or not_found",
        params=((*rules.GET, *rules.AGENT_V2),),
        results=("Read", "NotFound"),
    ),
    "memory.status": Described(
        summary="How the memory of an agent is", params=(rules.AGENT_V2,), results=("Status",)
    ),
    "sidecar.explain": Described(
        summary="A search whose hits say where their score comes from",
        params=((*rules.SEARCH_V2, *rules.AGENT_V2),),
        results=("Explained",),
    ),
    "sidecar.refresh": Described(
        summary="One scan to completion", params=(rules.REFRESH,), results=("Refreshed",)
    ),
}
