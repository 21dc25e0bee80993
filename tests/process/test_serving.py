"""The process: its ready line, its socket, its tokens, a second instance, and its end (spec §2)."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest


def modes(directory: Path) -> dict[str, str]:
    """Every entry below a directory with its permission bits."""
    return {
        str(path.relative_to(directory)): oct(stat.S_IMODE(path.lstat().st_mode))
        for path in directory.rglob("*")
    }


async def test_serve_prints_one_line_to_stdout_and_ends_with_status_0_on_sigterm(
    launcher: Any, workspace: Path
) -> None:
    service = launcher.serve(workspace)
    await service.ready()
    service.process.send_signal(signal.SIGTERM)
    out, _ = service.process.communicate(timeout=15)
    assert (service.process.returncode, out) == (0, "")


async def test_sigint_ends_it_with_status_0_even_during_the_first_scan(
    launcher: Any, workspace: Path, write: Any
) -> None:
    write(workspace, {f"memory/{n}.md": f"# Note {n}\n\n" + f"- line of note {n}\n" * 40 for n in range(300)})
    service = launcher.serve(workspace)
    service.process.send_signal(signal.SIGINT)
    assert service.process.wait(timeout=15) == 0


async def test_a_second_instance_on_the_same_state_is_refused_and_the_first_goes_on(
    launcher: Any, example: Any, workspace: Path
) -> None:
    second = launcher.run(
        "serve", "--workspace", str(workspace), "--state-dir", str(example.state), "--port", "0"
    )
    assert second.returncode == 2
    assert second.stdout == ""
    assert "already" in second.stderr
    assert (await example.search("boiler"))["hits"]


@pytest.mark.slow
async def test_after_kill_9_the_next_start_needs_no_help(launcher: Any, workspace: Path, write: Any) -> None:
    write(workspace, {"MEMORY.md": "- The lantern hangs in the porch.\n"})
    first = launcher.serve(workspace)
    await first.ready()
    first.process.kill()
    first.process.wait()
    second = launcher.serve(workspace)
    await second.ready()
    assert await second.excerpts("lantern") == ["- The lantern hangs in the porch."]
    assert second.stop() == 0


async def test_everything_in_the_state_directory_is_private_whatever_the_umask(
    launcher: Any, workspace: Path, write: Any
) -> None:
    write(workspace, {"MEMORY.md": "- something\n"})
    service = launcher.serve(workspace, prefix=["sh", "-c", 'umask 000; exec "$@"', "sh"])
    await service.ready()
    found = modes(service.state)
    assert {"operator.token", "host.token", "sidecar.sock"} <= set(found)
    assert stat.S_IMODE(service.state.stat().st_mode) == 0o700
    wrong = {
        name: mode
        for name, mode in found.items()
        if mode != ("0o700" if (service.state / name).is_dir() else "0o600")
    }
    assert wrong == {}
    assert service.stop() == 0


async def test_the_unix_socket_serves_the_same_and_needs_the_token_too(example: Any) -> None:
    connector = aiohttp.UnixConnector(path=str(example.state / "sidecar.sock"))
    async with aiohttp.ClientSession(connector=connector) as session:
        url = "http://localhost/rpc/memory.search"
        async with session.post(url, json={"query": "boiler"}, headers=example.headers()) as response:
            assert response.status == 200
            over_socket = (await response.json())["payload"]
        async with session.post(url, json={"query": "boiler"}) as response:
            assert response.status == 401
    assert over_socket == await example.search_v1("boiler")


@pytest.mark.slow
async def test_a_state_directory_with_a_very_long_path_still_serves_its_socket(
    launcher: Any, workspace: Path, write: Any
) -> None:
    write(workspace, {"MEMORY.md": "- The lantern hangs in the porch.\n"})
    state = launcher.directory / ("long-" * 20) / ("path-" * 20)
    service = launcher.serve(workspace, state=state)
    await service.ready()
    found = launcher.run(
        "search", "lantern", "--state-dir", str(state), "--workspace", str(workspace), "--json"
    )
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["hits"]
    assert service.stop() == 0


@pytest.mark.slow
async def test_search_get_status_and_token_find_the_running_service_by_themselves(
    launcher: Any, workspace: Path, write: Any
) -> None:
    write(workspace, {"MEMORY.md": "- The lantern hangs in the porch.\n", "memory/a.md": "one\ntwo\nthree\n"})
    process = launcher.popen("serve", "--workspace", str(workspace), "--port", "0")
    assert process.stdout is not None
    url = process.stdout.readline().rsplit(" ", 1)[1].strip()
    named = ("--workspace", str(workspace))
    token = launcher.run("token", *named).stdout.strip()
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session,
        session.post(url + "/rpc/sidecar.refresh", json={}) as response,
    ):
        assert response.status == 200
    searched = launcher.run("search", "lantern", *named)
    assert searched.returncode == 0, searched.stderr
    assert "MEMORY.md:1" in searched.stdout
    assert "The lantern hangs in the porch." in searched.stdout
    got = launcher.run("get", "memory/a.md", "--from", "2", "--lines", "1", *named)
    assert (got.returncode, got.stdout.strip()) == (0, "two")
    missing = launcher.run("get", "memory/none.md", *named)
    assert missing.returncode == 1
    status = launcher.run("status", "--json", *named)
    assert (status.returncode, json.loads(status.stdout)["status"]) == (0, "ready")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=15) == 0


@pytest.mark.slow
def test_without_a_service_the_command_line_opens_the_index_itself(
    launcher: Any, workspace: Path, write: Any
) -> None:
    write(workspace, {"MEMORY.md": "- The lantern hangs in the porch.\n"})
    named = ("--workspace", str(workspace))
    indexed = launcher.run("index", *named)
    assert indexed.returncode == 0, indexed.stderr
    found = launcher.run("search", "lantern", "--json", *named)
    assert found.returncode == 0, found.stderr
    assert [hit["excerpt"] for hit in json.loads(found.stdout)["hits"]] == [
        "- The lantern hangs in the porch."
    ]
    v1 = launcher.run("search", "lantern", "--json", "--v1", *named)
    assert json.loads(v1.stdout)["results"][0]["path"] == "MEMORY.md"
    assert launcher.run("status", *named).returncode == 0


@pytest.mark.slow
def test_index_beside_a_running_service_asks_that_service(launcher: Any, workspace: Path, write: Any) -> None:
    service = launcher.serve(workspace, state=launcher.directory / "s")
    write(workspace, {"MEMORY.md": "- The lantern hangs in the porch.\n"})
    named = ("--workspace", str(workspace), "--state-dir", str(service.state))
    assert launcher.run("index", *named).returncode == 0
    found = launcher.run("search", "lantern", "--json", *named)
    assert json.loads(found.stdout)["hits"]
    assert launcher.run("index", "--rebuild", *named).returncode == 0
    assert json.loads(launcher.run("search", "lantern", "--json", *named).stdout)["hits"]
    assert service.stop() == 0


@pytest.mark.slow
async def test_a_restart_on_an_unchanged_workspace_does_no_indexing_work(
    launcher: Any, workspace: Path, write: Any, eventually: Any
) -> None:
    write(workspace, {f"memory/{n}.md": f"- note number {n} about lanterns\n" for n in range(30)})
    first = launcher.serve(workspace)
    await first.ready()

    async def settled() -> bool:
        # files that changed a moment ago are looked at again once the clock has moved on
        details = (await first.call("memory.status", {}))["details"]
        return bool(details["index"]["unsettled"] == 0)

    await eventually(settled)
    assert first.stop() == 0
    second = launcher.serve(workspace)
    await second.ready()
    work = (await second.call("memory.status", {}))["details"]["work"]
    assert (work["filesRead"], work["blocksEmbedded"]) == (0, 0)
    assert len((await second.search("lanterns"))["hits"]) == 20
    assert second.stop() == 0


@pytest.mark.slow
async def test_one_changed_file_is_the_only_one_read_and_embedded(
    launcher: Any, workspace: Path, write: Any, eventually: Any
) -> None:
    write(workspace, {f"memory/{n}.md": f"- note number {n} about lanterns\n" for n in range(30)})
    first = launcher.serve(workspace)
    await first.ready()

    async def settled() -> bool:
        return bool((await first.call("memory.status", {}))["details"]["index"]["unsettled"] == 0)

    await eventually(settled)
    before = (await first.call("memory.status", {}))["details"]["work"]
    write(workspace, {"memory/7.md": "- note number 7 about lighthouses\n"})

    async def found() -> bool:
        return "lighthouses" in str(await first.excerpts("lighthouses"))

    await eventually(found)
    after = (await first.call("memory.status", {}))["details"]["work"]
    assert after["blocksEmbedded"] - before["blocksEmbedded"] == 1
    assert 1 <= after["filesRead"] - before["filesRead"] <= 3
    assert first.stop() == 0


def test_a_workspace_that_is_not_there_and_a_state_inside_it_are_refused_in_one_line(
    launcher: Any, workspace: Path
) -> None:
    for arguments in (
        ("--workspace", str(workspace / "nowhere")),
        ("--workspace", str(workspace), "--state-dir", str(workspace / "memory" / "state")),
        ("--workspace", str(workspace), "--host", "0.0.0.0"),
    ):
        refused = launcher.run("serve", "--port", "0", *arguments)
        assert refused.returncode == 2, arguments
        assert refused.stdout == ""
        assert len(refused.stderr.strip().splitlines()) == 1, refused.stderr
    assert list(workspace.iterdir()) == []


def test_help_and_version_are_quick_and_complete(launcher: Any) -> None:
    help_text = launcher.run("--help").stdout
    for command in ("serve", "index", "search", "get", "status", "doctor", "token", "config"):
        assert command in help_text
    heavy = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "sidecar", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ),
        cwd=launcher.home,
    ).stderr
    for module in ("tantivy", "hnswlib", "numpy", "wordllama", "aiohttp"):
        assert f" {module}\n" not in heavy


def test_doctor_finds_nothing_wrong_on_a_good_workspace(launcher: Any, workspace: Path, write: Any) -> None:
    write(workspace, {"MEMORY.md": "- something\n"})
    checked = launcher.run("doctor", "--json", "--workspace", str(workspace), "--port", "0")
    assert checked.returncode == 0, checked.stdout
    assert json.loads(checked.stdout)


@pytest.mark.slow
async def test_index_serve_and_a_restart_agree_on_what_is_indexed(
    launcher: Any, workspace: Path, write: Any
) -> None:
    write(
        workspace,
        {
            "MEMORY.md": "- lantern in the porch\n", "memory.md": "lantern lower case\n",
            "memory/.hidden/x.md": "lantern hidden\n", "memory/a.MD": "lantern upper\n",
            "memory/node_modules/p.md": "lantern vendor\n", "memory/deep/er/y.md": "lantern deep\n",
            "memory/draft.md~": "lantern scratch\n", "AGENTS.md": "lantern agents\n",
        },
    )  # fmt: skip
    named = ("--workspace", str(workspace), "--state-dir")
    assert launcher.run("index", *named, str(launcher.directory / "one")).returncode == 0
    alone = launcher.run(
        "search", "lantern", "--json", "--min-score", "0", *named, str(launcher.directory / "one")
    )
    answers = [json.loads(alone.stdout)["hits"]]
    for _ in range(2):
        service = launcher.serve(workspace, state=launcher.directory / "two")
        await service.ready()
        answers.append((await service.search("lantern", minScore=0))["hits"])
        skipped = (await service.call("memory.status", {}))["details"]["skipped"]
        assert service.stop() == 0
    assert answers[0] == answers[1] == answers[2]
    assert {hit["reference"]["id"] for hit in answers[0]} == {
        "MEMORY.md", "memory/.hidden/x.md", "memory/deep/er/y.md",
    }  # fmt: skip
    assert {item["path"] for item in skipped} >= {"memory.md", "memory/a.MD"}
