"""Checks of `doctor` on what the service needs around it: watch limits, embeddings, tokens, the port."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import http.client
import os
import resource
import shlex
import socket
import sys
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from sidecar.cli.check_files import corpus_of
from sidecar.cli.finding import Finding, error, fine, warning
from sidecar.domain.errors import EmbeddingFailed, SidecarError
from sidecar.settings.load import Loaded
from sidecar.settings.model import (
    AgentSettings,
    EmbeddingSettings,
    Settings,
    TokenSettings,
    is_loopback,
)
from sidecar.settings.state import lock_holder, read_endpoint
from sidecar.settings.tokens import client_secret, generated_tokens, token_faults
from sidecar.text.counting import counted

LEAST_OPEN_FILES = 256
_HEALTH_SECONDS = 2.0

_WATCH_LIMITS = ("/proc/sys/fs/inotify/max_user_watches", "/proc/sys/user/max_inotify_watches")


def check_watch(loaded: Loaded) -> Iterator[Finding]:
    """Whether the kernel still gives an inotify instance, and enough watches for every folder."""
    check, watch = "watch", loaded.settings.watch
    if watch.mode == "polling":
        yield fine(check, f"polling every {watch.poll_seconds:g} seconds, as configured")
        return
    if not sys.platform.startswith("linux"):
        yield fine(check, "events of this platform need no limits")
        return
    if not _can_watch():
        yield _unwatchable(
            watch.mode,
            "this user has no inotify instance left",
            "raise fs.inotify.max_user_instances by sysctl",
        )
        return
    watched = [_watched_folders(agent) for agent in loaded.settings.agents.values()]
    notes, transcripts = sum(of_notes for of_notes, _ in watched), sum(of_others for _, of_others in watched)
    needed = notes + transcripts
    limit = min((_number(path) for path in _WATCH_LIMITS if Path(path).exists()), default=sys.maxsize)
    if needed > limit:
        yield _unwatchable(
            watch.mode,
            f"{needed} folders need watches, this user may have {limit}",
            f"raise fs.inotify.max_user_watches to {2 * needed} or more by sysctl",
        )
        return
    more = f" and {transcripts} of transcripts" if transcripts else ""
    yield fine(check, f"{counted(notes, 'folder')}{more} to watch, this user may have {limit}")


def _unwatchable(mode: str, message: str, action: str) -> Finding:
    if mode == "events":
        return error("watch", message, action)
    return warning("watch", f"{message}: changes are polled for", action)


def _can_watch() -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(libc.inotify_init1(os.O_CLOEXEC))
    if descriptor < 0:
        return ctypes.get_errno() not in (errno.EMFILE, errno.ENFILE, errno.ENOSPC)
    os.close(descriptor)
    return True


def _watched_folders(agent: AgentSettings) -> tuple[int, int]:
    """What the service would watch of an agent, notes and transcripts, by the scan as `status` counts it."""
    place = agent.workspace
    if not agent.reads_files or place is None or not place.is_dir():
        return 0, 0
    corpus = corpus_of(agent, place)
    return len(corpus.watched(corpus.scan())), agent.sessions.enabled and agent.sessions.directory.is_dir()


def _number(path: str) -> int:
    text = Path(path).read_text(encoding="ascii").strip()
    return int(text) if text.isdigit() else sys.maxsize


def check_embeddings(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether vectors can be had: the local model is loaded, an endpoint is asked for one word."""
    check, embeddings = "embeddings", loaded.settings.embeddings
    if embeddings.provider == "none":
        yield fine(check, "none, as configured: search is by words only")
    elif embeddings.provider == "local":
        yield _check_local(check)
    elif embeddings.api_key_env is not None and not environ.get(embeddings.api_key_env, "").strip():
        yield error(
            check, f"{embeddings.api_key_env} is not set", f"set {embeddings.api_key_env} to the API key"
        )
    elif embeddings.api_key_env is not None and _is_open(embeddings.base_url or ""):
        yield warning(check, "the API key is sent without encryption", "use an https:// base_url")
        yield _check_remote(check, embeddings, environ)
    else:
        yield _check_remote(check, embeddings, environ)


def _check_local(check: str) -> Finding:
    # The model and its libraries are loaded by no other command.
    from sidecar.embedding.local import LocalEmbedder

    embedder = LocalEmbedder()
    try:
        embedder.embed(["memory"])
    except SidecarError as failure:
        return error(check, f"the local model does not load: {failure.message}", "reinstall memory-sidecar")
    return fine(check, f"the local model loads ({embedder.identity.dimensions} dimensions)")


def _is_open(address: str) -> bool:
    """Whether what is sent there can be read on the way."""
    parts = urlsplit(address)
    return parts.scheme == "http" and not is_loopback(parts.hostname or "")


def _check_remote(check: str, settings: EmbeddingSettings, environ: Mapping[str, str]) -> Finding:
    from sidecar.runtime.embedders import make_embedder

    async def asked() -> Finding:
        embedder = make_embedder(settings, environ)
        if embedder is None:
            return fine(check, "none")
        try:
            identity = (await embedder.embed(["memory"])).identity
        finally:
            await embedder.close()
        return fine(check, f"model {identity.name} answers ({identity.dimensions} dimensions)")

    try:
        return asyncio.run(asked())
    except SidecarError as failure:
        advice = failure.advice if isinstance(failure, EmbeddingFailed) else None
        return error(check, failure.message, advice or "start the endpoint, or correct [embeddings]")


def check_tokens(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether every secret can be had, is long enough and private."""
    check, settings = "tokens", loaded.settings
    tokens = settings.tokens or generated_tokens(settings.state_dir)
    faults = token_faults(tokens, environ)
    for token in tokens:
        if not settings.tokens and token.secret_file is not None and not token.secret_file.exists():
            yield fine(check, f"the {token.name} token is created at the first start")
        elif token.name in faults:
            yield error(check, faults[token.name].message, _token_action(faults[token.name].message, token))
        else:
            yield fine(check, f"{token.name} ({token.role}) is usable")


def _token_action(message: str, token: TokenSettings) -> str:
    if token.secret_env is not None:
        return f"set {token.secret_env} to a random secret of 32 characters"
    file = shlex.quote(str(token.secret_file))
    if "readable by others" in message:
        return f"chmod 600 {file}"
    if "another user" in message:
        return f"give it to the user that runs the service: chown $USER {file}"
    if token.secret_file is not None and token.secret_file.is_dir():
        return "name a file instead of the folder"
    return f"(umask 077; openssl rand -hex 32 > {file})"


def check_service(loaded: Loaded) -> Iterator[Finding]:
    """Whether the process that holds the state directory answers; nothing where none holds it."""
    check, settings = "service", loaded.settings
    holder = lock_holder(settings.state_dir)
    if holder is None:
        yield fine(check, "none is running; memory-sidecar serve starts it")
        return
    from sidecar.client import ServiceUnreachable, discover

    async def asked() -> Finding:
        client = await discover(settings.state_dir, lambda: client_secret(settings, agent=loaded.agent))
        if client is None:
            return fine(check, f"process {holder} holds the state directory and does not serve")
        async with client:
            await client.require_alive()
        return fine(check, f"process {holder} answers")

    try:
        yield asyncio.run(asked())
    except ServiceUnreachable as failure:
        yield error(
            check, f"process {holder} holds the state directory, but {failure.message}",
            f"end process {holder} and start the service again",
        )  # fmt: skip
    except SidecarError as failure:
        yield error(check, failure.message, "correct [[tokens]], or the owner of the state directory")


def check_limits() -> Iterator[Finding]:
    """Whether a service may open as many files as it needs."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < LEAST_OPEN_FILES:
        yield warning(
            "limits", f"a process may open {soft} files, {LEAST_OPEN_FILES} are needed at times",
            f"raise it: ulimit -n {4 * LEAST_OPEN_FILES}",
        )  # fmt: skip
    else:
        yield fine("limits", f"a process may open {soft} files")


def check_port(settings: Settings) -> Iterator[Finding]:
    """Whether the address is free, or held by the service of this state directory."""
    check, where = "port", f"{settings.host}:{settings.port}"
    holder = lock_holder(settings.state_dir)
    endpoint = read_endpoint(settings.state_dir) if holder is not None else None
    if endpoint is not None:
        yield fine(check, f"our service runs on {endpoint.host}:{endpoint.port} (process {endpoint.pid})")
        if settings.port in (0, endpoint.port):
            return
    if settings.port == 0:
        yield fine(check, "a free port is picked at start")
        return
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as failure:
        if failure.errno == errno.EADDRINUSE and _is_sidecar(str(address[0]), settings.port):
            yield error(
                check, f"{where} is held by a memory-sidecar with another state directory, or a deleted one",
                "pass the flags that it was started with, or end it and start it again",
            )  # fmt: skip
        elif failure.errno == errno.EADDRINUSE:
            yield error(check, f"{where} is held by another program", "stop it or pass another --port")
        else:
            yield error(check, f"{where} cannot be used: {failure.strerror}", "pass another --host or --port")
        return
    yield fine(check, f"{where} is free")


def _is_sidecar(address: str, port: int) -> bool:
    """Whether the program that holds a port answers as this one does. No token is shown to it."""
    connection = http.client.HTTPConnection(address, port, timeout=_HEALTH_SECONDS)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        return answer.status == HTTPStatus.OK and answer.read(64) == b'{"status":"live"}'
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
