"""The one error tree. Each class carries its wire code; `sidecar.wire.encode` maps it, nobody else does.

SidecarError
├── InvalidRequest            400 INVALID_REQUEST
│   ├── UnknownAgent          400 INVALID_REQUEST
│   ├── Unauthenticated       401 INVALID_REQUEST   details.code AUTH_TOKEN_*
│   ├── RouteNotFound         404 INVALID_REQUEST
│   ├── MethodNotAllowed      405 INVALID_REQUEST
│   ├── RequestTooSlow        408 INVALID_REQUEST
│   │   └── BodyTooSlow       408 INVALID_REQUEST
│   ├── BodyTooLarge          413 INVALID_REQUEST
│   └── UnsupportedMedia      415 INVALID_REQUEST
├── Forbidden                 403 FORBIDDEN
├── Unavailable               503 UNAVAILABLE
│   ├── CapabilityUnsupported     details.code CAPABILITY_UNSUPPORTED
│   ├── ForeignReference          details.code FOREIGN_REFERENCE
│   ├── AccessDenied              details.code ACCESS_DENIED
│   │   ├── AudienceRefused
│   │   └── CallerRevoked
│   ├── CursorInvalid             details.code CURSOR_INVALID
│   ├── CursorExpired             details.code CURSOR_EXPIRED
│   ├── LeaseClosed               details.code LEASE_CLOSED
│   ├── ProviderFailed            details.code PROVIDER_FAILED
│   ├── EmbeddingFailed           details.code PROVIDER_FAILED, retryable
│   └── Overloaded                details.code OVERLOADED, retryable
├── SettingsError             never on the wire: one line at start, exit 2
├── StateError                never on the wire: state directory unusable or taken, exit 2
├── CorpusError               an unreadable folder or file, named in status
├── StoreDamaged              a store that has to be rebuilt
└── Halted                    never on the wire: work that nobody waits for any more
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar


class SidecarError(Exception):
    """Root of the tree. Only what is `on_wire` reaches a caller: its message holds no host path or secret.

    `is_refusal`: it is itself a decision about access, and the dispatcher records it. For that record alone,
    `agent_id` and `authority` say whom it concerns, once somebody knows (`concerning`).
    """

    on_wire: ClassVar[bool] = False
    is_refusal: ClassVar[bool] = False

    code: ClassVar[str] = "UNAVAILABLE"
    status: ClassVar[int] = 503
    details_code: ClassVar[str | None] = None
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        details: Mapping[str, object] | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = dict(details or {})
        self.retry_after_ms = retry_after_ms
        self.agent_id = ""
        self.authority = ""


@contextmanager
def concerning(agent_id: str, authority: str) -> Iterator[None]:
    """What is refused in here concerns this agent and this kind of caller."""
    try:
        yield
    except SidecarError as error:
        error.agent_id = error.agent_id or agent_id
        error.authority = error.authority or authority
        raise


class InvalidRequest(SidecarError):
    """The caller's mistake: a bad frame, parameter or agent (U§1-3)."""

    on_wire = True
    code = "INVALID_REQUEST"
    status = 400


class UnknownAgent(InvalidRequest):
    """An agent that is not configured, or that the token does not list: the two are one (spec §3)."""

    is_refusal = True

    def __init__(self) -> None:
        super().__init__("unknown agentId")


class Unauthenticated(InvalidRequest):
    """No token or a wrong one (spec §3)."""

    status = 401

    def __init__(self, message: str, *, details_code: str) -> None:
        super().__init__(message, details={"code": details_code})


class RouteNotFound(InvalidRequest):
    """No such route."""

    status = 404


class MethodNotAllowed(InvalidRequest):
    """The route exists but not with this HTTP method."""

    status = 405


class RequestTooSlow(InvalidRequest):
    """The head of a request did not arrive within its time."""

    status = 408


class BodyTooSlow(RequestTooSlow):
    """The body did not arrive within its time."""


class BodyTooLarge(InvalidRequest):
    """The body is over 1 MiB."""

    status = 413


class UnsupportedMedia(InvalidRequest):
    """The body is not declared as JSON, or it is compressed."""

    status = 415


class Forbidden(SidecarError):
    """A known caller without the right: Host, Origin, role or scope (spec §3)."""

    on_wire = True
    is_refusal = True
    code = "FORBIDDEN"
    status = 403


class Unavailable(SidecarError):
    """Anything that fails after parsing (U§1)."""

    on_wire = True


class CapabilityUnsupported(Unavailable):
    """An undeclared capability was asked for; raised before provider code runs (U§4)."""

    details_code = "CAPABILITY_UNSUPPORTED"


class ForeignReference(Unavailable):
    """A reference of another provider, inbound or returned (U§4)."""

    details_code = "FOREIGN_REFERENCE"

    def __init__(self) -> None:
        super().__init__("memory reference belongs to a different provider")


class AccessDenied(Unavailable):
    """The policy denied a read (spec §5.4)."""

    details_code = "ACCESS_DENIED"


class AudienceRefused(AccessDenied):
    """An audience that was not minted here, is another session's or no longer holds (U§6)."""

    is_refusal = True


class CallerRevoked(AccessDenied):
    """The request's token, connection or call is not what it was when it came (U§3)."""

    is_refusal = True

    def __init__(self) -> None:
        super().__init__("Memory request authority is no longer active")


class CursorInvalid(Unavailable):
    """A cursor that this process did not mint for this caller and query (spec §5.1)."""

    details_code = "CURSOR_INVALID"


class CursorExpired(Unavailable):
    """A cursor whose walk is no longer kept (spec §5.1)."""

    details_code = "CURSOR_EXPIRED"


class LeaseClosed(Unavailable):
    """A closed, unknown, expired or foreign lease (spec §4.2)."""

    is_refusal = True
    details_code = "LEASE_CLOSED"

    def __init__(self) -> None:
        super().__init__("memory provider handle is closed")


class ProviderFailed(Unavailable):
    """Provider code failed or broke its contract; the cause is logged, not sent."""

    details_code = "PROVIDER_FAILED"


class EmbeddingFailed(Unavailable):
    """Text could not be turned into vectors; the message is our own, it quotes nothing that was received.

    `lasting`: asking again soon is useless (key, quota, address). `answered`: something came back, so that
    the texts themselves may be the cause. `advice` is the one thing to do, where it is known.
    """

    details_code = "PROVIDER_FAILED"
    retryable = True

    def __init__(
        self,
        message: str,
        *,
        lasting: bool = False,
        answered: bool = False,
        advice: str | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message, retry_after_ms=retry_after_ms)
        self.lasting = lasting
        self.advice = advice
        self.answered = answered


class Overloaded(Unavailable):
    """A bounded queue is full; try again after `retry_after_ms`."""

    details_code = "OVERLOADED"
    retryable = True


class SettingsError(SidecarError):
    """One line that names the file, the key and what it accepts (spec §2)."""


class StateError(SidecarError):
    """The state directory is unusable, inside a watched root, or taken by another process (spec §2)."""


class CorpusError(SidecarError):
    """A folder or file of the corpus cannot be read; `reason` is a short stable word for status."""

    def __init__(self, message: str, *, path: str, reason: str) -> None:
        super().__init__(message)
        self.path = path
        self.reason = reason


class Halted(SidecarError):
    """Long work was given up, because nobody waits for it any more (`domain/halting.py`)."""


class StoreDamaged(SidecarError):
    """A store of the index cannot be used as it is and has to be rebuilt (spec §7)."""
