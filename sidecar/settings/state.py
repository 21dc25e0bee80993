"""The state directory: where it is, who may be in it, whose it is, where its socket answers (spec §2).

Everything in it is derived and may be deleted. Directories are 0700 and files 0600 whatever the umask.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec
import platformdirs

from sidecar.domain.errors import StateError

LOCK_NAME = "sidecar.lock"
SOCKET_NAME = "sidecar.sock"
ENDPOINT_NAME = "running.json"
TOKEN_NAMES = ("operator.token", "host.token")
OWN_NAMES = frozenset({LOCK_NAME, SOCKET_NAME, ENDPOINT_NAME, *TOKEN_NAMES})
# The kernel's sockaddr_un holds 108 bytes with the final zero, 104 elsewhere.
LONGEST_SOCKET_PATH = 107 if sys.platform == "linux" else 103
LOCK_ATTEMPTS = 3
LOCK_PAUSE_SECONDS = 0.03
_UNREADABLE = re.compile(r"[^A-Za-z0-9_]+")
_NOISE = frozenset({"lost+found", ".DS_Store"})


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a running service listens on TCP, for display only: clients use the socket."""

    host: str
    port: int
    pid: int


def default_state_dir(origin: Path) -> Path:
    """`<per-user state>/memory-sidecar/<readable name>-<hash>` of a configuration file or a workspace.

    The hash is of the resolved path, so that two spellings of one place share their state.
    """
    resolved = origin.resolve()
    readable = resolved.stem if resolved.suffix == ".toml" else resolved.name
    name = _UNREADABLE.sub("-", readable).strip("-")[:40]
    digest = hashlib.sha256(os.fsencode(resolved)).hexdigest()[:12]
    return platformdirs.user_state_path("memory-sidecar", appauthor=False) / f"{name or 'root'}-{digest}"


def refuse_inside(directory: Path, roots: Iterable[Path]) -> None:
    """Raise `StateError` when the directory lies in a watched root or around one, also by way of links."""
    own = directory.resolve()
    for root in roots:
        watched = root.resolve()
        if own.is_relative_to(watched):
            raise StateError(
                f"state directory {directory} is inside {root}, which is memory: pass another --state-dir"
            )
        if watched.is_relative_to(own):
            raise StateError(
                f"state directory {directory} contains {root}, which is memory: pass another --state-dir"
            )


class SocketAddress:
    """A path for `bind` and `connect` that is short enough. Keep it open while the address is in use."""

    def __init__(self, directory: Path) -> None:
        """Raises `StateError` when the directory is missing or its path is too long on this platform."""
        self._descriptor: int | None = None
        plain = directory / SOCKET_NAME
        if len(os.fsencode(plain)) <= LONGEST_SOCKET_PATH:
            self.path = plain
            return
        if sys.platform != "linux":
            raise StateError(
                f"state directory {directory} is too long a path for a socket: pass a shorter one"
            )
        try:
            self._descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise StateError(f"state directory {directory}: {error.strerror}") from error
        self.path = Path(f"/proc/self/fd/{self._descriptor}/{SOCKET_NAME}")

    def close(self) -> None:
        """Release the address; idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class StateLock:
    """The right to write a state directory, until `close`; the kernel releases it when the process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def close(self) -> None:
        """Release the lock; idempotent. The file stays: all must lock the same one."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> StateLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class StateDirectory:
    """An existing state directory of ours, mode 0700."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._kept: dict[str, tuple[int, int]] = {}

    @classmethod
    def open(cls, path: Path, *, roots: Iterable[Path], agents: Collection[str]) -> StateDirectory:
        """Create or take over the directory.

        Raises `StateError` inside or around a watched root (before anything is created), for a folder that
        belongs to another user or holds foreign files, and when it cannot be made.
        """
        refuse_inside(path, roots)
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _own(path, agents)
        except OSError as error:
            raise StateError(f"state directory {path}: {error.strerror}") from error
        return cls(path)

    def agent_directory(self, agent_id: str) -> Path:
        """The folder of one agent, created with mode 0700; raises `StateError`."""
        folder = self.path / agent_id
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.fchmod(descriptor, 0o700)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StateError(f"state directory {self.path}: {agent_id}: {error.strerror}") from error
        self.keep(agent_id)
        return folder

    def keep(self, name: str) -> None:
        """Remember what has this name now, for `lost`; what is not there is lost already."""
        self._kept[name] = _identity(self.path / name) or (0, 0)

    def lost(self) -> str | None:
        """The name of something kept that was taken away or replaced since; None while all is in place.

        What a process has open lives on without a name: it would serve from it, and nobody would find it.
        """
        for name, identity in self._kept.items():
            if _identity(self.path / name) != identity:
                return name
        return None

    def lock(self) -> StateLock:
        """The exclusive right to this directory; raises `StateError` when another process has it."""
        try:
            descriptor = os.open(
                self.path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise StateError(f"state directory {self.path}: {LOCK_NAME}: {error.strerror}") from error
        try:
            os.fchmod(descriptor, 0o600)
            if not _taken(descriptor):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
                status = os.fstat(descriptor)
                self._kept[LOCK_NAME] = (status.st_dev, status.st_ino)
                return StateLock(descriptor)
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        except OSError as error:
            os.close(descriptor)
            raise StateError(f"state directory {self.path} cannot be locked: {error.strerror}") from error
        os.close(descriptor)
        raise StateError(
            f"state directory {self.path} is already in use by process {holder or 'unknown'}: "
            "stop it or pass another --state-dir"
        )

    def socket_address(self) -> SocketAddress:
        """The address of this directory's socket."""
        return SocketAddress(self.path)

    def write_endpoint(self, endpoint: Endpoint) -> None:
        """Publish where the service listens, atomically; raises `StateError`."""
        write_private(self.path / ENDPOINT_NAME, msgspec.json.encode(endpoint))

    def clear_endpoint(self) -> None:
        """Take the record back; call it before the lock is released.

        A record of another process stays: this one's folder may have been deleted and made anew meanwhile.
        """
        record = read_endpoint(self.path)
        if record is None or record.pid == os.getpid():
            (self.path / ENDPOINT_NAME).unlink(missing_ok=True)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def read_endpoint(directory: Path) -> Endpoint | None:
    """The record of a service that runs or was killed; None when there is none or it is damaged."""
    try:
        return msgspec.json.decode((directory / ENDPOINT_NAME).read_bytes(), type=Endpoint)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def lock_holder(directory: Path) -> int | None:
    """The process that holds the directory's lock now, None when it is free. Changes nothing."""
    try:
        descriptor = os.open(directory / LOCK_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).strip()
        return int(holder) if holder.isdigit() else 0
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None


def write_private(path: Path, content: bytes, *, replace: bool = True) -> bool:
    """Write a file of mode 0600 atomically: all of it or nothing is seen. Raises `StateError`.

    With `replace=False` an existing file wins and False is returned.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if replace:
                temporary.replace(path)
            else:
                os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error
    return True


def _taken(descriptor: int) -> bool:
    """Take the lock; True when another process keeps it. One that only looks lets go at once."""
    for attempt in range(LOCK_ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt + 1 < LOCK_ATTEMPTS:
                time.sleep(LOCK_PAUSE_SECONDS)
        else:
            return False
    return True


def _own(path: Path, agents: Collection[str]) -> None:
    """Make sure the directory is ours before its mode is changed: never chmod somebody's home."""
    status = path.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise StateError(f"state directory {path} is not a directory")
    if status.st_uid != os.geteuid():
        raise StateError(f"state directory {path} belongs to another user: pass another --state-dir")
    names = {entry.name for entry in path.iterdir()} - _NOISE
    if names and not names & (OWN_NAMES | set(agents)):
        raise StateError(
            f"state directory {path} holds files of something else: pass an empty or new --state-dir"
        )
    if stat.S_IMODE(status.st_mode) != 0o700:
        path.chmod(0o700)
