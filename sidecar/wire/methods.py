"""The methods as a reader of the OpenAPI document sees them: what they are for, their rules, their results.

One entry a method. A test holds this table together with the dispatcher's, so neither has one that the other
lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from sidecar.wire import host_rules, manager_rules, rules, session_rules
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
    "sidecar.caller": Described(
        summary="What the token of the request may do, and which process answers",
        params=((),),
        results=("Caller",),
    ),
    "sidecar.capabilities": Described(
        summary="What an agent's provider declares that it can do",
        params=(rules.AGENT_V2,),
        results=("Declared",),
    ),
    "sidecar.explain": Described(
        summary="A search whose hits say where their score comes from",
        params=((*rules.SEARCH_V2, *rules.FILTERS, *rules.AGENT_V2),),
        results=("Explained",),
    ),
    "sidecar.search": Described(
        summary="A version 2 search among notes of some paths and days, with at most so much text",
        params=((*rules.SEARCH_V2, *rules.FILTERS, rules.MAX_CHARS, *rules.AGENT_V2),),
        results=("Bounded",),
    ),
    "sidecar.notes": Described(
        summary="The indexed notes by name", params=((*rules.NOTES, *rules.AGENT_V2),), results=("Notes",)
    ),
    "sidecar.why": Described(
        summary="Why a note or transcript, or a line of it, is found by a query or is not",
        params=((rules.QUERY, *rules.WHY, *rules.AGENT_V2),),
        results=("Why",),
    ),
    "sidecar.refresh": Described(
        summary="One scan to completion", params=(rules.REFRESH,), results=("Refreshed",)
    ),
    "provider.open": Described(
        summary="A lease on an agent's memory for a caller that the host vouches for",
        params=host_rules.open_forms(),
        results=("Opened",),
        role="host",
    ),
    "provider.search": Described(
        summary="A search by a lease",
        params=(
            (
                *host_rules.REQUEST,
                *rules.within("request", (*rules.SEARCH_V2, *host_rules.SEARCH_ONLY)),
            ),
        ),
        results=("Page",),
        role="host",
    ),
    "provider.get": Described(
        summary="A read by a lease",
        params=((*host_rules.REQUEST, *rules.within("request", rules.GET)),),
        results=("HostRead", "HostNotFound"),
        role="host",
    ),
    "provider.candidates": Described(
        summary="The entries of one kind that a host may inject by itself",
        params=((*host_rules.REQUEST, *rules.within("request", host_rules.CANDIDATES)),),
        results=("Page",),
        role="host",
    ),
    "provider.health": Described(
        summary="How the provider of a lease is",
        params=(host_rules.LEASE,),
        results=("Health",),
        role="host",
    ),
    "provider.refresh": Described(
        summary="Look at the files again, where the provider offers it",
        params=(host_rules.LEASE,),
        results=("Done",),
        role="host",
    ),
    "provider.close": Described(
        summary="End a lease; idempotent", params=(host_rules.LEASE,), results=("Done",), role="host"
    ),
    "sidecar.audit": Described(
        summary="The last decisions about access; for a token of every agent, or operator.admin",
        params=(rules.AUDIT,),
        results=("Audited",),
    ),
    **{
        f"manager.{name}": Described(summary=summary, params=(params,), results=(result,), role="host")
        for name, summary, params, result in (
            ("search", "Raw file-shaped hits", manager_rules.SEARCH, "FileHits"),
            ("readFile", "The text of a memory file by its path", manager_rules.READ_FILE, "FileText"),
            ("status", "What the file-shaped manager says about itself", manager_rules.PLAIN, "FileStatus"),
            ("sync", "One scan to completion", manager_rules.SYNC, "AgentDone"),
            (
                "candidates",
                "Raw hits of the entries that a host may inject by itself",
                manager_rules.CANDIDATES,
                "FileHits",
            ),
            ("probe", "Whether embeddings answer and vectors can be searched", manager_rules.PLAIN, "Probed"),
            ("classify", "Where workspace paths come from", manager_rules.CLASSIFY, "Classified"),
            ("authorize", "Those of the hits that a requester may see", manager_rules.AUTHORIZE, "Admitted"),
        )
    },
    **{
        name: Described(summary=summary, params=params, results=results, role="host")
        for name, summary, params, results in (
            ("session.put", "Report one session row", (session_rules.ROW,), ("Done",)),
            ("session.replace", "Report every row of an agent", (session_rules.REPLACE_WHOLE,), ("Done",)),
            ("session.delete", "Report that a session is gone", (session_rules.DELETE,), ("Done",)),
            (
                "audience.resolve",
                "The audience of a turn by the reported rows, or why none",
                (session_rules.RESOLVE,),
                ("Granted", "Denied"),
            ),
            ("audience.admit", "An audience on the host's word", session_rules.ADMIT_FORMS, ("Minted",)),
            (
                "audience.delegate",
                "The same audience for a child session",
                (session_rules.DELEGATE,),
                ("Minted",),
            ),
            ("audience.release", "End an audience; idempotent", (session_rules.RELEASE,), ("Done",)),
            ("provenance.put", "Where a text came from", (session_rules.PROVENANCE,), ("Done",)),
        )
    },
}
