"""`export --to powercontext`: the facts of a workspace go to the store, each exactly once."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from relay import Relay
from sidecar.adapters.powercontext.facts import LARGEST_CONTEXT, LARGEST_FACT, facts_of, identity
from sidecar.adapters.powercontext.sent_write import SETTLED_SECONDS

from sidecar.domain.errors import ProviderFailed, SettingsError
from sidecar.runtime.exporting import Exported, export
from sidecar.settings.load import Flags, load

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples" / "workspace"
PROJECT = "git.example.net/hobby/weather-station"
SEVERAL = "it belongs to several projects, a record has one scope"
STATES = ("active", "merged", "forgotten")


def expected() -> Counter[tuple[str | None, str]]:
    """Every fact of the example workspace with its project."""
    paths = sorted(path for path in EXAMPLE.rglob("*.md"))
    found: Counter[tuple[str | None, str]] = Counter()
    for path in paths:
        facts, left_out = facts_of(path.relative_to(EXAMPLE).as_posix(), path.read_bytes())
        assert left_out == ()
        found.update((fact.project, identity(fact.text)) for fact in facts)
    assert set(found.values()) == {1}
    assert len(found) > 25
    return found


class Exports:
    """Exports a workspace for one agent of a server: here, or by the command in a process of its own."""

    def __init__(self, launcher: Any, store: Any, agent: str, workspace: Path = EXAMPLE) -> None:
        self._launcher = launcher
        self._agent = agent
        self._config = launcher.directory / "config.toml"
        self.environment = {"STORE_TOKEN": store.token}
        self.write(agent, workspace, store.url)

    def write(self, agent: str, workspace: Path, url: str, provider: str = "powercontext") -> None:
        table = f'[agents.{agent}.powercontext]\nendpoint = "{url}"\ntoken_env = "STORE_TOKEN"\n'
        self._config.write_text(
            f'[agents.{agent}]\nprovider = "{provider}"\nworkspace = "{workspace}"\n'
            + (table if provider == "powercontext" else "")
        )

    def arguments(self, *more: str) -> list[str]:
        state = self._launcher.directory / "state"
        shared = ["--config", str(self._config), "--state-dir", str(state)]
        return ["export", "--to", "powercontext", *shared, *more]

    async def here(self) -> Exported:
        state = str(self._launcher.directory / "state")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("STORE_TOKEN", self.environment["STORE_TOKEN"])
            loaded = load(Flags(config=str(self._config), state_dir=state), {})
            agent = loaded.settings.agents[self._agent]
            return await export(loaded, agent, only_look=False, progress=lambda *_: None)

    async def run(self, *more: str) -> Any:
        return await asyncio.to_thread(
            self._launcher.run, *self.arguments(*more), environment=self.environment, timeout=300
        )

    def begin(self) -> Any:
        return self._launcher.popen(*self.arguments(), environment=self.environment)


@pytest.fixture
def agent() -> str:
    return f"agent-{os.urandom(6).hex()}"


async def stored(memory: Any, agent: str) -> Counter[tuple[str | None, str]]:
    """What the store holds for the agent, in any state, by project."""
    own = f"openclaw:agent:{agent}"
    found: Counter[tuple[str | None, str]] = Counter()
    for project in (None, PROJECT):
        name = own if project is None else f"{own}:project:{project}"
        found.update((project, text) for text in await memory.listed(name, states=STATES))
    return found


async def test_an_export_run_twice_leaves_each_fact_exactly_once_in_its_own_scope(
    launcher: Any, store: Any, memory: Any, agent: str
) -> None:
    exports, facts = Exports(launcher, store, agent), expected()
    count = len(facts)
    first = await exports.here()
    assert (first.facts, first.written, first.present, first.left_out) == (count, count, 0, ())
    assert await stored(memory, agent) == facts
    second = await exports.here()
    assert (second.facts, second.written, second.present, second.left_out) == (count, 0, count, ())
    assert await stored(memory, agent) == facts


async def test_an_export_killed_twice_on_its_way_is_taken_up_again_and_leaves_each_fact_exactly_once(
    launcher: Any, store: Any, memory: Any, agent: str, eventually: Any
) -> None:
    exports, facts = Exports(launcher, store, agent), expected()
    for part in (len(facts) // 3, 2 * len(facts) // 3):
        process = exports.begin()

        async def so_far(part: int = part, process: Any = process) -> bool:
            return (await stored(memory, agent)).total() >= part or process.poll() is not None

        await eventually(so_far, within=240)
        process.kill()
        process.wait()
        assert part <= (await stored(memory, agent)).total() <= len(facts)
    again = await exports.run()
    assert again.returncode == 0, again.stderr
    assert await stored(memory, agent) == facts


async def test_an_export_killed_between_the_stores_commit_and_its_answer_leaves_each_fact_exactly_once(
    launcher: Any, store: Any, memory: Any, agent: str
) -> None:
    facts = expected()
    async with Relay(store, held="answer", nth=5) as relay:
        exports = Exports(launcher, relay, agent)
        process = exports.begin()
        await asyncio.wait_for(relay.reached.wait(), 240)
        process.kill()
        process.wait()
        assert (await stored(memory, agent)).total() == 5
        again = await exports.run("--json")
    assert again.returncode == 0, again.stderr
    assert {key: json.loads(again.stdout)[key] for key in ("written", "present")} == {
        "written": len(facts) - 5,
        "present": 5,
    }
    assert await stored(memory, agent) == facts


async def test_a_write_that_arrives_after_its_export_was_killed_and_begun_again_is_not_doubled(
    launcher: Any, store: Any, memory: Any, agent: str
) -> None:
    facts = expected()
    async with Relay(store, held="request", nth=5) as relay:
        exports = Exports(launcher, relay, agent)
        process = exports.begin()
        await asyncio.wait_for(relay.reached.wait(), 240)
        process.kill()
        process.wait()
        again = asyncio.create_task(exports.run())
        await asyncio.wait_for(relay.looked.wait(), 240)
        assert (await stored(memory, agent)).total() == 4
        relay.release.set()
        await asyncio.wait_for(relay.over.wait(), 240)
        done = await again
    assert done.returncode == 0, done.stderr
    assert "an earlier export ended while the server was writing" in done.stderr
    assert await stored(memory, agent) == facts


async def test_an_answer_lost_on_its_way_ends_the_export_and_the_next_one_leaves_each_fact_exactly_once(
    launcher: Any, store: Any, memory: Any, agent: str
) -> None:
    facts = expected()
    async with Relay(store, held="answer", nth=5) as relay:
        relay.release.set()
        exports = Exports(launcher, relay, agent)
        with pytest.raises(ProviderFailed, match="run the import again"):
            await exports.here()
        again = await exports.here()
    assert (again.written, again.present) == (len(facts) - 5, 5)
    assert await stored(memory, agent) == facts


async def test_a_write_that_cannot_come_any_more_is_made_again_without_a_wait(
    launcher: Any, stub: Any, memory_of_stub: Any, agent: str
) -> None:
    facts = expected()
    async with Relay(stub, held="request", nth=5) as relay:
        exports = Exports(launcher, relay, agent)
        process = exports.begin()
        await asyncio.wait_for(relay.reached.wait(), 240)
        process.kill()
        process.wait()
        # As if all that had been a minute ago, and the request had been lost.
        note = launcher.directory / "state" / agent / "export-sent.json"
        left = json.loads(note.read_bytes())
        note.write_text(json.dumps({**left, "at": left["at"] - SETTLED_SECONDS}))
        assert note.stat().st_mode & 0o777 == 0o600
        exports.write(agent, EXAMPLE, stub.url)
        began = time.monotonic()
        again = await exports.here()
        assert time.monotonic() - began < SETTLED_SECONDS / 2
        assert (again.written, again.present) == (len(facts) - 4, 4)
        assert await stored(memory_of_stub, agent) == facts
    assert not note.exists()


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff", b'{"at": "soon"}'])
async def test_a_damaged_note_of_a_write_holds_up_no_export(
    launcher: Any, stub: Any, memory_of_stub: Any, agent: str, damage: bytes
) -> None:
    note = launcher.directory / "state" / agent / "export-sent.json"
    note.parent.mkdir(parents=True, mode=0o700)
    note.parent.parent.chmod(0o700)
    note.write_bytes(damage)
    assert (await Exports(launcher, stub, agent).here()).written == len(expected())
    assert await stored(memory_of_stub, agent) == expected()


async def test_what_was_revised_or_forgotten_since_is_not_written_again(
    launcher: Any, store: Any, memory: Any, agent: str, tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "MEMORY.md").write_text("- The gate code is 1111\n- The cat is called Mo\n- Tea at four\n")
    exports = Exports(launcher, store, agent, workspace)
    await exports.here()
    name = f"openclaw:agent:{agent}"
    scope = await memory.scope(name)
    page = await memory.call("POST", "/v1/atomic-memory/list", {"scope_id": scope, "limit": 100})
    ids = {item["text"]: item["artifact"]["artifact_id"] for item in page["items"]}
    await memory.revise(name, ids["- The gate code is 1111"], "The gate code is 2222")
    await memory.forget(name, ids["- The cat is called Mo"])
    (workspace / "MEMORY.md").write_text(
        "- The gate code is 1111\n- The cat is called Mo\n- Tea at four\n- The dog is called Pa\n"
    )
    again = await exports.here()
    assert (again.written, again.present) == (1, 3)
    assert sorted(await memory.listed(name)) == [
        "- Tea at four", "- The dog is called Pa", "The gate code is 2222",
    ]  # fmt: skip
    assert (workspace / "MEMORY.md").stat().st_size > 0


@pytest.fixture
async def memory_of_stub(stub: Any) -> Any:
    import aiohttp
    from agent_memory import AgentMemory

    async with aiohttp.ClientSession() as session:
        yield AgentMemory(stub.url, stub.token, session)


async def test_a_busy_server_slows_an_export_down_and_does_not_end_it(
    launcher: Any, stub: Any, memory_of_stub: Any, agent: str
) -> None:
    from store_stub import error

    busy = 0

    async def now_and_then(_: Any) -> Any:
        nonlocal busy
        busy += 1
        return error(503, "server_overloaded", **{"Retry-After": "0"}) if busy % 3 == 0 else None

    stub.fault = now_and_then
    await Exports(launcher, stub, agent).here()
    stub.fault = None
    assert await stored(memory_of_stub, agent) == expected()


async def test_only_a_store_that_owns_the_memory_is_exported_to_and_what_is_left_out_is_named(
    launcher: Any, stub: Any, agent: str, tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "MEMORY.md").write_text(
        "- In two <!-- project: a/b; c/d -->\n- Malformed <!-- project: -->\n- Fine\n"
    )
    exports = Exports(launcher, stub, agent, workspace)
    looked = await exports.run("--dry-run")
    assert (looked.returncode, looked.stdout) == (
        1,
        f"{agent}: 1 facts would be looked for in powercontext\n",
    )
    assert "left out: MEMORY.md#L1-L1: it belongs to several projects" in looked.stderr
    assert "left out: MEMORY.md#L2-L2: its project annotation is malformed" in looked.stderr
    assert stub.calls == []
    done = await exports.run("--json")
    assert (done.returncode, json.loads(done.stdout)) == (
        1,
        {
            "agentId": agent,
            "facts": 1,
            "written": 1,
            "present": 0,
            "leftOut": [
                {
                    "place": "MEMORY.md#L1-L1",
                    "reason": "it belongs to several projects, a record has one scope",
                },
                {"place": "MEMORY.md#L2-L2", "reason": "its project annotation is malformed"},
            ],
        },
    )
    stub.calls.clear()
    exports.write(agent, workspace, stub.url, provider="workspace")
    with pytest.raises(SettingsError, match="hand this agent's memory over first"):
        await exports.here()
    assert stub.calls == []


@given(st.text(alphabet=st.sampled_from("ab# -\n|`\t\r é<!>:0.x日"), max_size=400))
def test_no_word_of_a_note_is_lost_and_no_fact_is_larger_than_the_store_takes(text: str) -> None:
    for path in ("MEMORY.md", "memory/2026-01-02.md"):
        facts, left_out = facts_of(path, text.encode())
        assert facts_of(path, text.encode()) == (facts, left_out)
        for fact in facts:
            assert len(fact.text.encode()) <= LARGEST_FACT + LARGEST_CONTEXT + 100 < 8192
            assert identity(fact.text) == fact.text
        if "<" not in text and "#" not in text and "---" not in text:
            whole = "".join(fact.text for fact in facts)
            for word in ("ab", "xx", "日"):
                assert whole.count(word) >= text.count(word) or "\r" in text or "`" in text
