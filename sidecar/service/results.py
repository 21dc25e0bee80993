"""What may come back from a provider: the declared type, nothing more in it, and its own references (U§4).

Provider code is foreign. A result is written out and read in again by its declared type, so what is released
is a copy that nobody else holds, and a field that the contract does not know is seen before it leaves.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from typing import Generic, TypeVar

import msgspec

from sidecar.domain.errors import ForeignReference, ProviderFailed
from sidecar.domain.memory import Citation, Found, Hit, NotFound, Page, ReadResult, Reference
from sidecar.domain.provider import Health

log = logging.getLogger(__name__)
S = TypeVar("S", bound=msgspec.Struct)
_encode = msgspec.msgpack.Encoder().encode


class _Declared(Generic[S]):
    """One declared type of result."""

    def __init__(self, kind: type[S]) -> None:
        self._kind = kind
        self._decoder = msgspec.msgpack.Decoder(kind)

    def copy(self, value: object) -> S:
        """The value as exactly this type; raises `TypeError` or msgspec's own errors for anything else."""
        if type(value) is not self._kind:
            raise TypeError(f"expected {self._kind.__name__}, got {type(value).__name__}")
        written = _encode(value)
        result = self._decoder.decode(written)
        # What is equal has nothing more in it. What is not may still be a float that is no number.
        if (
            result != value
            and _encode(result) != written
            and msgspec.to_builtins(result) != msgspec.to_builtins(value)
        ):
            raise TypeError(f"{self._kind.__name__} with a field that the contract does not know")
        return result


_PAGE, _FOUND, _HEALTH = _Declared(Page), _Declared(Found), _Declared(Health)


def page(value: object, provider_id: str) -> Page:
    """A page whose references are all the provider's; raises `ProviderFailed` or `ForeignReference`."""
    result = _as_declared(_PAGE, value, provider_id)
    for hit in result.hits:
        if hit.score is not None and not math.isfinite(hit.score):
            raise _broken(provider_id, "a score that is no finite number")
        _own(_references(hit), provider_id)
    return result


def read(value: object, provider_id: str) -> ReadResult:
    """A read whose references are all the provider's; raises `ProviderFailed` or `ForeignReference`."""
    if type(value) is NotFound:
        return value
    result = _as_declared(_FOUND, value, provider_id)
    _own([result.reference, *_cited(result.citations)], provider_id)
    return result


def health(value: object, provider_id: str) -> Health:
    """A provider's health as plain data; raises `ProviderFailed`."""
    return _as_declared(_HEALTH, value, provider_id)


def own(reference: Reference, provider_id: str) -> None:
    """Raise `ForeignReference` for a reference of another provider."""
    _own([reference], provider_id)


def _as_declared(declared: _Declared[S], value: object, provider_id: str) -> S:
    try:
        return declared.copy(value)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise _broken(provider_id, str(error)) from error


def _broken(provider_id: str, why: str) -> ProviderFailed:
    log.error("provider %s broke the contract: %s", provider_id, why)
    return ProviderFailed(f"memory provider {provider_id} failed")


def _references(hit: Hit) -> list[Reference]:
    return [hit.reference, *_cited(hit.citations)]


def _cited(citations: Iterable[Citation]) -> list[Reference]:
    return [citation.reference for citation in citations if citation.reference is not None]


def _own(references: Iterable[Reference], provider_id: str) -> None:
    if any(reference.provider_id != provider_id for reference in references):
        raise ForeignReference
