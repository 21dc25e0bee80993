"""Gateway frames (U§1): a request frame in, a response frame out, JSON bytes on both sides."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from sidecar.domain.errors import InvalidRequest, ProviderFailed, SidecarError
from sidecar.domain.requests import request_id
from sidecar.wire.rules import Params

INVALID_ID = "invalid"
INTERNAL = "memory sidecar failed; its log says why"
_KEYS = frozenset({"type", "id", "method", "params", "traceparent", "expectedProfileId"})
_LONGEST_TRACEPARENT = 128


class RequestFrame(msgspec.Struct, frozen=True, kw_only=True):
    """A well-formed request. `params` is an empty object where the frame has none or no object."""

    id: str
    method: str
    params: Params


class BadFrame(InvalidRequest):
    """A frame that is not one; `id` is what a reply can carry."""

    def __init__(self, reason: str, *, frame_id: str = INVALID_ID) -> None:
        super().__init__(f"invalid request frame: {reason}")
        self.id = frame_id


def decode_json(body: bytes) -> object:
    """The JSON value of a body; raises `InvalidRequest` for anything that is not plain JSON.

    A number too large for a double, a lone surrogate, invalid UTF-8 and nesting beyond the decoder's depth
    are refused like any other junk. Of a key that is given twice the last value counts, as in the gateway.
    """
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise InvalidRequest(f"body is not valid JSON: {_reason(error, body)}") from error
    return value


def _reason(error: Exception, body: bytes) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    # The decoder calls such a string "truncated", whatever follows it.
    return "a lone surrogate in a string" if _holds_lone_surrogate(body) else str(error)


def _holds_lone_surrogate(body: bytes) -> bool:
    """Whether half of a surrogate pair is all that is wrong with a body. Costs a second look at bad ones."""
    if b"\\ud" not in body.lower():
        return False
    try:
        json.dumps(json.loads(body), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        return False
    return False


def decode_request(body: bytes) -> RequestFrame:
    """The request frame of a body; raises `BadFrame`."""
    try:
        value = decode_json(body)
    except InvalidRequest as error:
        raise BadFrame(error.message) from error
    return request_of(value)


def request_of(value: object) -> RequestFrame:
    """The request frame of a decoded value; raises `BadFrame` with the frame's own id where it has one."""
    if not isinstance(value, dict):
        raise BadFrame("must be an object")
    raw_id = value.get("id")
    frame_id = raw_id if isinstance(raw_id, str) and raw_id else INVALID_ID
    for reason in _faults(value):
        raise BadFrame(reason, frame_id=frame_id)
    return RequestFrame(id=frame_id, method=value["method"], params=params_of(value.get("params")))


def _faults(value: Mapping[str, Any]) -> list[str]:
    faults = []
    if value.get("type") != "req":
        faults.append('type must be "req"')
    for key in ("id", "method"):
        if not isinstance(value.get(key), str) or not value[key]:
            faults.append(f"{key} must be a non-empty string")
    if "traceparent" in value:
        trace = value["traceparent"]
        if not isinstance(trace, str) or len(trace) > _LONGEST_TRACEPARENT:
            faults.append(f"traceparent must be a string of at most {_LONGEST_TRACEPARENT} characters")
    if "expectedProfileId" in value and not isinstance(value["expectedProfileId"], str):
        faults.append("expectedProfileId must be a string")
    faults += [f"unexpected property {key!r}"[:120] for key in value if key not in _KEYS]
    return faults


def params_of(value: object) -> Params:
    """Handlers see an object: absent, null and everything that has no properties become an empty one."""
    return value if isinstance(value, dict) else {}


def bare_params(body: bytes) -> Params:
    """The params object that is a body by itself; raises `InvalidRequest` for anything else."""
    value = decode_json(body) if body.strip() else None
    if not isinstance(value, dict):
        raise InvalidRequest("the body must be the params, an object; {} where there are none")
    return value


def encode_json(value: object) -> bytes:
    """JSON bytes of a value; a NaN or infinity cannot occur in what we send and is refused."""
    return msgspec.json.encode(value)


def response(frame_id: str, payload: Mapping[str, object]) -> bytes:
    """A successful response frame."""
    return encode_json({"type": "res", "id": frame_id, "ok": True, "payload": payload})


def failure(frame_id: str, error: SidecarError) -> bytes:
    """A response frame that carries an error."""
    return encode_json({"type": "res", "id": frame_id, "ok": False, "error": error_object(error)})


def error_object(error: SidecarError) -> dict[str, object]:
    """The error shape of every answer (spec §4). An error that is not for callers becomes one sentence.

    What failed inside carries `details.requestId`, by which the log names it.
    """
    if not error.on_wire:
        error = ProviderFailed(INTERNAL)
    out: dict[str, object] = {"code": error.code, "message": error.message}
    details = dict(error.details)
    if error.details_code is not None:
        details = {"code": error.details_code, **details}
    if error.details_code == ProviderFailed.details_code and (current := request_id()) is not None:
        details["requestId"] = current
    if details:
        out["details"] = details
    if error.retryable:
        out["retryable"] = True
    if error.retry_after_ms is not None:
        out["retryAfterMs"] = max(0, math.ceil(error.retry_after_ms))
    return out
