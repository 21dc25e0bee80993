"""Secrets and whom they stand for (spec §3). A secret is never part of a repr, an error or a log line."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from sidecar.domain.authority import Principal
from sidecar.domain.errors import SettingsError, StateError
from sidecar.settings.model import Role, Settings, TokenSettings
from sidecar.settings.state import write_private

log = logging.getLogger(__name__)

SHORTEST_SECRET = 16
LARGEST_SECRET_FILE = 4096
READ_SCOPES = frozenset({"operator.read", "operator.admin"})
ROLES: tuple[Role, ...] = ("operator", "host")
_HEADER_SAFE = re.compile(r"[\x21-\x7e]+\Z")


class _Known(msgspec.Struct, frozen=True):
    """A token in force: the digest of its secret, never the secret."""

    digest: bytes
    principal: Principal

    def __repr__(self) -> str:
        return f"_Known({self.principal.name})"


class TokenStore:
    """The tokens in force. Build it with `open`; `match` is what the door asks."""

    def __init__(
        self, tokens: Sequence[TokenSettings], *, environ: Mapping[str, str], generated_in: Path | None
    ) -> None:
        self._tokens = tuple(tokens)
        self._environ = environ
        self._generated_in = generated_in
        self._known: tuple[_Known, ...] = ()

    @classmethod
    def open(cls, settings: Settings, state_dir: Path, environ: Mapping[str, str] = os.environ) -> TokenStore:
        """Read every secret; with none configured, the two of the state directory, created at need.

        `state_dir` must exist. Raises `SettingsError` for a secret that is unset, too short, readable by
        others or used twice, `StateError` when the generated ones cannot be written.
        """
        generated_in = None if settings.tokens else state_dir
        store = cls(
            settings.tokens or generated_tokens(state_dir), environ=environ, generated_in=generated_in
        )
        if generated_in is not None:
            create_tokens(generated_in)
        known, faults = _read(store._tokens, environ)
        for fault in faults.values():
            raise fault
        store._known = known
        return store

    @property
    def principals(self) -> tuple[Principal, ...]:
        """Whom the tokens in force stand for."""
        return tuple(known.principal for known in self._known)

    def match(self, presented: str) -> Principal | None:
        """Whom a presented secret stands for. Takes as long for a wrong one as for a right one."""
        digest = _digest(presented)
        found: Principal | None = None
        for known in self._known:
            if hmac.compare_digest(known.digest, digest):
                found = known.principal
        return found

    def reload(self) -> tuple[str, ...]:
        """Read the secrets again; the names of tokens whose old secret no longer stands.

        Fail closed: a secret that has become unreadable, too short or ambiguous stands for nobody until it
        is mended, which is logged by name. Deleted generated tokens are made anew.
        """
        if self._generated_in is not None:
            try:
                create_tokens(self._generated_in)
            except StateError:
                log.warning("generated tokens cannot be written")
        known, faults = _read(self._tokens, self._environ)
        for name in faults:
            log.warning("token is unusable and admits nobody", extra={"token_name": name})
        before = {item.principal.name: item.digest for item in self._known}
        after = {item.principal.name: item.digest for item in known}
        self._known = known
        return tuple(name for name, digest in before.items() if after.get(name) != digest)


def token_faults(tokens: Sequence[TokenSettings], environ: Mapping[str, str]) -> dict[str, SettingsError]:
    """What is wrong with the secrets, by the token's name, as a start would refuse them."""
    return _read(tokens, environ)[1]


def _read(
    tokens: Sequence[TokenSettings], environ: Mapping[str, str]
) -> tuple[tuple[_Known, ...], dict[str, SettingsError]]:
    known: list[_Known] = []
    faults: dict[str, SettingsError] = {}
    for token in tokens:
        try:
            secret = read_secret(token, environ)
        except SettingsError as error:
            faults[token.name] = error
            continue
        principal = Principal(name=token.name, role=token.role, scopes=token.scopes, agents=token.agents)
        known.append(_Known(_digest(secret), principal))
    for index, item in enumerate(known):
        for other in known[:index]:
            if item.digest == other.digest:
                first, second = other.principal.name, item.principal.name
                fault = SettingsError(
                    f"tokens.{second} accepts a secret of its own, it has the one of tokens.{first}"
                )
                # Two identities for one secret: neither may be guessed.
                faults[first] = faults[second] = fault
    return tuple(item for item in known if item.principal.name not in faults), faults


def generated_tokens(state_dir: Path) -> tuple[TokenSettings, ...]:
    """The two tokens of a state directory for which none are configured: every agent, reading."""
    return tuple(
        TokenSettings(name=role, role=role, secret_file=state_dir / f"{role}.token") for role in ROLES
    )


def create_tokens(state_dir: Path) -> None:
    """Create the generated tokens that do not exist yet (mode 0600); a concurrent start wins or loses.

    They are derived state: one that was cut short or emptied is made anew.
    """
    for token in generated_tokens(state_dir):
        path = token.secret_file
        if path is None:
            continue
        damaged = path.is_file() and not path.is_symlink() and _is_damaged(path)
        if damaged:
            log.warning("generated token was damaged and is made anew", extra={"token_name": token.name})
        if damaged or not path.exists():
            write_private(path, f"{secrets.token_urlsafe(32)}\n".encode(), replace=damaged)


def _is_damaged(path: Path) -> bool:
    try:
        secret = path.read_bytes().strip()
    except OSError:
        return False
    return len(secret) < SHORTEST_SECRET or not _HEADER_SAFE.match(secret.decode("latin-1"))


def read_secret(token: TokenSettings, environ: Mapping[str, str] = os.environ) -> str:
    """The secret of one token; raises `SettingsError` that names token and source."""
    return read_named_secret(
        f"tokens.{token.name}",
        secret_env=token.secret_env,
        secret_file=token.secret_file,
        environ=environ,
        shortest=SHORTEST_SECRET,
    )


def read_named_secret(
    key: str,
    *,
    secret_env: str | None,
    secret_file: Path | None,
    environ: Mapping[str, str],
    shortest: int,
) -> str:
    """The secret in a file or else in an environment variable; raises `SettingsError` that names `key`.

    It must be printable ASCII of at least `shortest` bytes, and a file must be readable by its owner only.
    """
    if secret_file is not None:
        secret, where = _read_file(key, secret_file), str(secret_file)
    else:
        where = f"environment variable {secret_env}"
        secret = environ.get(secret_env or "", "").strip()
        if not secret:
            raise SettingsError(f"{key}: {where} is not set")
    if len(secret.encode("utf-8", "surrogateescape")) < shortest:
        raise SettingsError(f"{key}: {where} accepts at least {shortest} bytes, the secret is shorter")
    if not _HEADER_SAFE.match(secret):
        raise SettingsError(f"{key}: {where} accepts printable ASCII without spaces, the secret has others")
    return secret


def client_secret(
    settings: Settings,
    environ: Mapping[str, str] = os.environ,
    *,
    role: Role | None = None,
    agent: str | None = None,
) -> str:
    """A secret for our own client or for `token`: operators first, of `role` and for `agent` where given.

    Reads `settings.state_dir` when no tokens are configured. Raises `SettingsError` when there is none.
    """
    candidates = [
        token
        for token in settings.tokens or generated_tokens(settings.state_dir)
        if (role is None or token.role == role)
        and (agent is None or token.agents is None or agent in token.agents)
        and (role is not None or READ_SCOPES & set(token.scopes))
    ]
    if not candidates:
        wanted = f"has role {role}" if role else "may read"
        scope = f" agent {agent}" if agent else ""
        raise SettingsError(f"tokens: none of the configured ones {wanted}{scope}")
    faults: list[SettingsError] = []
    for token in sorted(candidates, key=lambda token: (token.role != "operator", token.agents is not None)):
        try:
            return read_secret(token, environ)
        except SettingsError as error:
            faults.append(error)
    raise faults[0]


def _read_file(key: str, path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a path"
        raise SettingsError(f"{key}: {path} cannot be read: {reason}") from error
    try:
        # The open file is what is judged and read, so it cannot be swapped in between.
        _judge(key, path, os.fstat(descriptor))
        content = os.read(descriptor, LARGEST_SECRET_FILE + 1)
    except OSError as error:
        raise SettingsError(f"{key}: {path} cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if len(content) > LARGEST_SECRET_FILE:
        raise SettingsError(f"{key}: {path} accepts at most {LARGEST_SECRET_FILE} bytes")
    return content.decode("ascii", "surrogateescape").strip()


def _judge(key: str, path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SettingsError(f"{key}: {path} is not a regular file")
    if status.st_mode & 0o077:
        raise SettingsError(
            f"{key}: {path} is readable by others (mode {stat.S_IMODE(status.st_mode):04o}): chmod 600 it"
        )
    if status.st_uid not in (os.geteuid(), 0):
        raise SettingsError(f"{key}: {path} belongs to another user")


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
