"""What an OpenAI-compatible embedding endpoint answered, checked before any of it is believed (spec §7).

Pure: bytes in, vectors of length 1 in the order of the texts out, or `EmbeddingFailed` with a reason of its
own for each fault. Nothing of the answer is quoted: it may repeat a key or the text of a note.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

from sidecar.domain.errors import EmbeddingFailed

MOST_DIMENSIONS = 16384
_LONGEST_MODEL_NAME = 200
_LEAST_LENGTH = 1e-12

Matrix = NDArray[np.float32]


class Answer(msgspec.Struct, frozen=True):
    """Vectors, one row a text and of length 1, and the model that the endpoint says it used."""

    matrix: Matrix
    model: str | None


class _Item(msgspec.Struct):
    embedding: list[float] | str
    index: int | None = None


class _Body(msgspec.Struct):
    data: list[_Item]
    model: str | None = None


class _Error(msgspec.Struct):
    code: str | int | None = None
    type: str | None = None


class _ErrorBody(msgspec.Struct):
    error: _Error


_BODY = msgspec.json.Decoder(_Body)
_ERROR = msgspec.json.Decoder(_ErrorBody)
_USED_UP = ("insufficient_quota", "billing_hard_limit_reached", "quota_exceeded")


def read_answer(body: bytes, *, count: int, dimensions: int | None) -> Answer:
    """The vectors of `count` texts, each of `dimensions` numbers where that is given."""
    parsed = _parsed(body)
    if len(parsed.data) != count:
        _refuse(f"gave {len(parsed.data)} vectors for {count} texts")
    rows = [_row(item.embedding) for item in _in_order(parsed.data)]
    length = len(rows[0]) if rows else 0
    if any(len(row) != length for row in rows):
        _refuse("gave vectors of different lengths")
    if not 0 < length <= MOST_DIMENSIONS:
        _refuse("gave empty vectors" if not length else f"gave vectors of {length} numbers")
    if dimensions is not None and length != dimensions:
        _refuse(f"gives vectors of {length} numbers, not of {dimensions} as configured")
    matrix = np.stack(rows)
    if not np.isfinite(matrix).all():
        _refuse("gave numbers that are not finite")
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    if (lengths < _LEAST_LENGTH).any():
        _refuse("gave a vector of zeros")
    unit = (matrix / lengths).astype(np.float32)
    return Answer(unit, _name(parsed.model))


def is_quota(body: bytes) -> bool:
    """Whether the body of a refusal says that the account is used up, so that asking again is useless."""
    try:
        error = _ERROR.decode(body).error
    except (msgspec.MsgspecError, RecursionError):
        return False
    return error.code in _USED_UP or error.type in _USED_UP


def _parsed(body: bytes) -> _Body:
    try:
        return _BODY.decode(body)
    except msgspec.ValidationError:
        _refuse("gave something other than lists of numbers")
    except (msgspec.MsgspecError, RecursionError):
        start = body.lstrip()[:1]
        if start == b"<":
            _refuse("gave a web page instead of JSON: is base_url right?")
        if start == b"{" and (b"NaN" in body or b"Infinity" in body):
            _refuse("gave numbers that are not finite")
        _refuse("gave something other than JSON, or only a part of it")


def _in_order(items: Sequence[_Item]) -> list[_Item]:
    """By index, which must name every text once; as given where no item has one."""
    if all(item.index is None for item in items):
        return list(items)
    placed = {item.index: item for item in items}
    if placed.keys() != set(range(len(items))):
        _refuse("gave vectors for some texts twice and for others none")
    return [placed[position] for position in range(len(items))]


def _row(value: list[float] | str) -> NDArray[np.float64]:
    if not isinstance(value, str):
        return np.array(value, dtype=np.float64)
    try:
        data = base64.b64decode(value, validate=True)
        return np.frombuffer(data, dtype="<f4").astype(np.float64)
    except (binascii.Error, ValueError):
        _refuse("gave text instead of numbers")


def _name(model: str | None) -> str | None:
    """A model's name is shown in status: printable and short."""
    if model is None:
        return None
    return "".join(sign for sign in model if sign.isprintable())[:_LONGEST_MODEL_NAME].strip() or None


def _refuse(what: str) -> NoReturn:
    raise EmbeddingFailed(f"the embedding endpoint {what}", answered=True)
