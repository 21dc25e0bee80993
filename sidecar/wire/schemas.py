"""The shapes that answers have, as JSON Schema: what `wire/encode.py` and `wire/frames.py` write.

Objects are open, since clients are to ignore fields that they do not know; the tests close them, so that no
answer holds a field that is not described here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import get_args

from sidecar.domain.corpus import OriginClass
from sidecar.domain.errors import SidecarError
from sidecar.domain.memory import SOURCES
from sidecar.domain.why import WhyVerdict
from sidecar.wire.kinds import Schema

STRING: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
BOOLEAN: Schema = {"type": "boolean"}
LINE: Schema = {"type": "integer", "minimum": 1}
COUNT: Schema = {"type": "integer", "minimum": 0}
FREE: Schema = {"type": "object"}
WHY_VERDICTS: tuple[str, ...] = get_args(WhyVerdict)
ORIGINS: tuple[str, ...] = get_args(OriginClass)
# Codes of details that no error class carries, since they depend on what was asked.
_CODES_IN_PLACE = ("AUTH_TOKEN_MISSING", "AUTH_TOKEN_MISMATCH", "MISSING_SCOPE")


def shape(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """An object of required and optional properties."""
    out: Schema = {"type": "object", "properties": {**required, **(optional or {})}}
    if required:
        out["required"] = list(required)
    return out


def listing(item: Schema) -> Schema:
    """An array of something."""
    return {"type": "array", "items": item}


def ref(name: str) -> Schema:
    """A reference to a component of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def _envelope(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """What every v2 answer has at its top, and the result's own fields."""
    head: dict[str, Schema] = {"version": {"const": 2}, "agentId": STRING, "providerId": STRING}
    return shape(head | dict(required), optional)


_PAGE_OPTIONAL: dict[str, Schema] = {
    "nextCursor": STRING,
    "coverage": {"enum": ["complete", "partial"]},
    "warning": STRING,
}
_FOUND: dict[str, Schema] = {"status": {"const": "ok"}, "reference": ref("Reference"), "text": STRING}
_FOUND_OPTIONAL: dict[str, Schema] = {
    "citations": listing(ref("Citation")),
    "truncated": BOOLEAN,
    "from": LINE,
    "lines": COUNT,
    "nextFrom": LINE,
}
_NOT_FOUND: dict[str, Schema] = {"status": {"const": "not_found"}}
_HEALTH: dict[str, Schema] = {"status": {"enum": ["ready", "degraded", "unavailable"]}}
_HEALTH_OPTIONAL: dict[str, Schema] = {"message": STRING, "details": FREE}
_HIT: dict[str, Schema] = {"reference": ref("Reference"), "excerpt": STRING}
_HIT_OPTIONAL: dict[str, Schema] = {
    "score": NUMBER,
    "source": STRING,
    "citations": listing(ref("Citation")),
    "automaticRecall": ref("AutomaticRecall"),
}


_CAPABILITIES: dict[str, Schema] = {
    "sources": listing({"enum": list(SOURCES)}),
    "pagination": BOOLEAN,
    "candidates": listing({"enum": ["trigger", "project"]}),
    "projectFilter": BOOLEAN,
}
_STALENESS: dict[str, Schema] = {"stale": {"const": True}, "warning": STRING, "action": STRING}
_DECISION = shape(
    {
        "at": STRING,
        "tokenName": STRING,
        "authority": STRING,
        "agentId": STRING,
        "method": STRING,
        "verdict": {"enum": ["allow", "deny"]},
        "reason": STRING,
    }
)


def _codes(cls: type[SidecarError]) -> Iterator[str]:
    if cls.details_code is not None:
        yield cls.details_code
    for child in cls.__subclasses__():
        yield from _codes(child)


def error() -> Schema:
    """The error object of every refusal (spec §4), its `details.code` from the error tree."""
    codes = sorted({*_codes(SidecarError), *_CODES_IN_PLACE})
    return shape(
        {
            "code": {"enum": ["INVALID_REQUEST", "FORBIDDEN", "UNAVAILABLE"]},
            "message": {"type": "string", "minLength": 1},
        },
        {
            "details": shape(
                {},
                {
                    "code": {"enum": codes},
                    "missingScope": STRING,
                    "requiredScopes": listing(STRING),
                    "instance": STRING,
                    "reason": STRING,
                    "requestId": STRING,
                },
            ),
            "retryable": BOOLEAN,
            "retryAfterMs": COUNT,
        },
    )


def success(payload: Schema) -> Schema:
    """A response frame that carries a payload."""
    return shape({"type": {"const": "res"}, "id": STRING, "ok": {"const": True}, "payload": payload})


def components() -> dict[str, Schema]:
    """Every named schema of the document."""
    return {
        "Error": error(),
        "RequestFrame": {
            **shape(
                {
                    "type": {"const": "req"},
                    "id": {"type": "string", "minLength": 1},
                    "method": {"type": "string", "minLength": 1},
                },
                {
                    "params": {"description": "what is no object counts as an empty one"},
                    "traceparent": {"type": "string", "maxLength": 128},
                    "expectedProfileId": STRING,
                },
            ),
            "additionalProperties": False,
        },
        "Failure": shape(
            {"type": {"const": "res"}, "id": STRING, "ok": {"const": False}, "error": ref("Error")}
        ),
        "Refusal": {"anyOf": [ref("Error"), ref("Failure")]},
        "Reference": shape({"providerId": STRING, "id": STRING}, {"revision": STRING, "fragment": STRING}),
        "Citation": shape(
            {"label": STRING},
            {"reference": ref("Reference"), "url": STRING, "startLine": LINE, "endLine": LINE},
        ),
        "AutomaticRecall": shape(
            {"eligible": BOOLEAN},
            {
                "projectKeys": listing(STRING),
                "triggers": STRING,
                "importance": {"type": "integer", "minimum": 1, "maximum": 10},
            },
        ),
        "Hit": shape(_HIT, _HIT_OPTIONAL),
        "ExplainedHit": shape(
            {**_HIT, "explain": {"type": "object", "additionalProperties": NUMBER}}, _HIT_OPTIONAL
        ),
        "FileShapedHit": _file_shaped_hit({}),
        "RawHit": _file_shaped_hit(
            {
                "provenance": shape(
                    {"originClass": {"enum": list(ORIGINS)}, "sessionKind": STRING, "observedAt": COUNT}
                )
            }
        ),
        **_results(),
        **_host_results(),
    }


def _file_shaped_hit(more: Mapping[str, Schema]) -> Schema:
    return shape(
        {
            "path": STRING,
            "startLine": LINE,
            "endLine": LINE,
            "score": NUMBER,
            "snippet": STRING,
            "source": {"enum": list(SOURCES)},
        },
        {
            "vectorScore": NUMBER,
            "textScore": NUMBER,
            "importance": {"type": "integer", "minimum": 1, "maximum": 10},
            "triggers": STRING,
            "projectKey": STRING,
            **more,
        },
    )


def _results() -> dict[str, Schema]:
    """The payloads of the methods."""
    return {
        "SearchV1": shape(
            {
                "agentId": STRING,
                "provider": STRING,
                "searchMode": {"enum": ["hybrid", "fts-only"]},
                "results": listing(ref("FileShapedHit")),
            },
            _STALENESS,
        ),
        "SearchV2": _envelope({"hits": listing(ref("Hit"))}, _PAGE_OPTIONAL),
        "Explained": _envelope({"hits": listing(ref("ExplainedHit"))}, _PAGE_OPTIONAL),
        "Bounded": _envelope({"hits": listing(ref("Hit"))}, {**_PAGE_OPTIONAL, "truncated": {"const": True}}),
        "Notes": shape(
            {"agentId": STRING, "notes": listing(shape({"path": STRING}, {"day": STRING}))}, {"next": STRING}
        ),
        "Why": shape(
            {"agentId": STRING, "path": STRING, "verdict": {"enum": list(WHY_VERDICTS)}, "reason": STRING},
            {
                "action": STRING,
                "line": LINE,
                "rank": LINE,
                "score": NUMBER,
                "best": NUMBER,
                "projectKeys": listing(STRING),
            },
        ),
        "Read": _envelope(_FOUND, _FOUND_OPTIONAL),
        "NotFound": _envelope(_NOT_FOUND),
        "Status": _envelope(_HEALTH, _HEALTH_OPTIONAL),
        "Caller": shape(
            {
                "name": STRING,
                "role": {"enum": ["operator", "host"]},
                "scopes": listing(STRING),
                "agents": listing(STRING),
                "audit": BOOLEAN,
                "serviceVersion": STRING,
                "instance": STRING,
            },
            {"defaultAgent": STRING},
        ),
        "Declared": _envelope(
            {"capabilities": shape({**_CAPABILITIES, "noteFilter": BOOLEAN}), "servesV1": BOOLEAN}
        ),
        "Audited": shape({"allowed": COUNT, "denied": {"type": "object"}, "decisions": listing(_DECISION)}),
        "Refreshed": shape({"agentId": STRING, "files": COUNT, "units": COUNT, "blocks": COUNT}),
    }


def _host_results() -> dict[str, Schema]:
    """The payloads of the host methods, each with the `instance` of this process (spec §4.2)."""

    def told(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
        return shape({**required, "instance": STRING}, optional)

    audience = shape(
        {"handle": STRING, "agentId": STRING, "kind": {"enum": ["owner-private", "conversation"]}},
        {"sessionKey": STRING, "sessionId": STRING},
    )
    return {
        "Minted": told({"audience": audience}),
        "Granted": told({"status": {"const": "granted"}, "audience": audience}),
        "Denied": told({"status": {"const": "denied"}, "kind": STRING, "reason": STRING}),
        "Opened": told(
            {
                "lease": STRING,
                "providerId": STRING,
                "adapter": {"enum": ["native", "legacy"]},
                "capabilities": shape(_CAPABILITIES),
            }
        ),
        "Page": told({"hits": listing(ref("Hit"))}, _PAGE_OPTIONAL),
        "HostRead": told(_FOUND, _FOUND_OPTIONAL),
        "HostNotFound": told(_NOT_FOUND),
        "Health": told(_HEALTH, _HEALTH_OPTIONAL),
        "Done": told({}),
        **_manager_results(told),
    }


def _manager_results(told: Callable[..., Schema]) -> dict[str, Schema]:
    """The payloads of `manager.*`; what a manager says of itself is free (U§13)."""
    agent = {"agentId": STRING}
    raw = told({**agent, "hits": listing(ref("RawHit"))}, _STALENESS)
    text = told(
        {**agent, "status": {"enum": ["ok", "not_found"]}, "text": STRING, "path": STRING},
        {"from": LINE, "lines": COUNT, "truncated": BOOLEAN, "nextFrom": LINE},
    )
    origin = shape({"relativePath": STRING, "originClass": {"enum": list(ORIGINS)}})
    return {
        "FileHits": raw,
        "FileText": text,
        "FileStatus": told({**agent, "status": FREE}),
        "AgentDone": told(agent),
        "Probed": told({**agent, "embedding": shape({"ok": BOOLEAN}, {"error": STRING}), "vector": FREE}),
        "Classified": told({**agent, "classifications": listing(origin)}),
        "Admitted": told({**agent, "hits": listing(FREE)}),
    }
