"""The client: finds the running service by its socket, and raises the service's own errors (spec §2, §4)."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from sidecar.client import ServiceUnreachable, SidecarClient, discover
from sidecar.domain.errors import (
    AccessDenied,
    CapabilityUnsupported,
    CursorExpired,
    CursorInvalid,
    Forbidden,
    ForeignReference,
    InvalidRequest,
    LeaseClosed,
    Overloaded,
    ProviderFailed,
    SidecarError,
    StateError,
    Unauthenticated,
    Unavailable,
)


async def found(desk: Any) -> SidecarClient:
    client = await discover(desk.state, lambda: desk.token("operator"))
    assert client is not None
    return client


async def test_a_running_service_is_found_by_its_socket_and_answers_the_same_over_tcp(desk: Any) -> None:
    desk.answers["memory.status"] = {"status": "ready", "é": [1, None]}
    async with await found(desk) as client:
        assert await client.call("memory.status", {"agentId": "main"}) == desk.answers["memory.status"]
    async with SidecarClient.over_tcp(f"http://127.0.0.1:{desk.port}/", desk.token("host")) as client:
        assert await client.call("memory.status") == desk.answers["memory.status"]
    assert desk.asked == [("memory.status", {"agentId": "main"}), ("memory.status", {})]


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequest("query must be a non-empty string"),
        Forbidden("missing scope", details={"code": "MISSING_SCOPE", "missingScope": "x"}),
        Unavailable("memory search failed"),
        CapabilityUnsupported("no"),
        ForeignReference(),
        AccessDenied("denied"),
        CursorInvalid("bad"),
        CursorExpired("old"),
        LeaseClosed(),
        ProviderFailed("failed"),
        Overloaded("busy", retry_after_ms=250),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_the_error_that_the_service_raised_is_the_error_that_the_caller_gets(
    error: SidecarError, desk: Any
) -> None:
    desk.answers["memory.search"] = error
    async with await found(desk) as client:
        with pytest.raises(SidecarError) as caught:
            await client.call("memory.search", {"query": "x"})
    assert type(caught.value) is type(error)
    assert caught.value.message == error.message
    assert caught.value.retry_after_ms == error.retry_after_ms
    assert error.details.items() <= caught.value.details.items() or error.details_code is not None


async def test_a_wrong_token_and_an_unknown_method_are_told_apart(desk: Any) -> None:
    async with SidecarClient.over_socket(desk.state, "x" * 20) as client:
        with pytest.raises(Unauthenticated) as caught:
            await client.call("memory.status")
    assert caught.value.details["code"] == "AUTH_TOKEN_MISMATCH"
    async with await found(desk) as client:
        with pytest.raises(InvalidRequest, match="unknown method: a/b"):
            await client.call("a/b")


async def test_readiness_comes_with_counts_in_either_state(desk: Any) -> None:
    async with await found(desk) as client:
        assert (await client.ready()).ready is True
        desk.ready = False
        answer = await client.ready()
    assert (answer.ready, answer.counts["pending"]) == (False, 3)


async def test_a_service_that_takes_too_long_is_unreachable_and_not_an_empty_answer(desk: Any) -> None:
    desk.seconds = 30.0
    async with await found(desk) as client:
        with pytest.raises(ServiceUnreachable, match="did not answer in time"):
            await client.call("memory.status", timeout_seconds=0.1)


async def test_nothing_is_found_where_nothing_runs_and_no_token_is_asked_for(tmp_path: Path) -> None:
    def ask() -> str:
        raise AssertionError("no service, so no token may be asked for")

    assert await discover(tmp_path / "absent", ask) is None
    assert await discover(tmp_path, ask) is None
    leftover = tmp_path / "sidecar.sock"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(leftover))
    assert leftover.exists()
    assert await discover(tmp_path, ask) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to be root to give a folder away")
async def test_the_token_is_not_sent_to_another_users_service(desk: Any) -> None:
    shutil.chown(desk.state, 65534, 65534)
    try:
        # Root may ask anybody's service; any other user is checked against the folder's owner.
        async with await found(desk) as client:
            assert (await client.ready()).ready
        os.seteuid(65533)
        try:
            with pytest.raises(PermissionError):
                list(desk.state.iterdir())
            assert await discover(desk.state, lambda: "x") is None
        finally:
            os.seteuid(0)
        desk.state.chmod(0o755)
        (desk.state / "sidecar.sock").chmod(0o666)
        for folder in desk.state.parents:
            if folder != Path("/"):
                folder.chmod(folder.stat().st_mode | 0o011)
        os.seteuid(65533)
        try:
            with pytest.raises(StateError, match="belongs to another user"):
                await discover(desk.state, lambda: "x")
        finally:
            os.seteuid(0)
    finally:
        shutil.chown(desk.state, 0, 0)


async def test_what_is_no_service_of_ours_is_said_to_be_none() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    async with SidecarClient.over_tcp(f"http://127.0.0.1:{port}", "x" * 20) as client:
        with pytest.raises(ServiceUnreachable, match="cannot be reached"):
            await client.call("memory.status")
        await client.close()
