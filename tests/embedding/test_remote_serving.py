"""Remote embeddings end to end through `memory-sidecar serve` (spec §2, §7)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from embedding_endpoint import Endpoint, status

from sidecar.domain.errors import SettingsError
from sidecar.runtime.embedders import make_embedder
from sidecar.settings.model import EmbeddingSettings

pytestmark = pytest.mark.slow

KEY = "sk-canary-0123456789"
NOTES = {
    "MEMORY.md": "# Memory\n\n- The spare garage opener is in the blue tin.\n- Tea before ten.\n",
    "memory/fruit.md": "A ripe banana and a pear for the children.\n",
    "memory/harbour.md": "The ship leaves the harbour at dawn.\n",
}


def environment(endpoint: Endpoint, **more: str) -> dict[str, str]:
    """What a service needs to use the endpoint."""
    settings = {
        "PROVIDER": "openai-compatible",
        "BASE_URL": endpoint.base_url,
        "MODEL": "tiny",
        "API_KEY_ENV": "ENDPOINT_KEY",
        **more,
    }
    return {"ENDPOINT_KEY": KEY} | {f"MEMORY_SIDECAR_EMBEDDINGS_{k}": v for k, v in settings.items()}


async def launched(launcher: Any, *arguments: Any, **options: Any) -> Any:
    """Started beside the loop, on which the endpoint answers."""
    return await asyncio.to_thread(launcher.serve, *arguments, **options)


async def stopped(service: Any) -> None:
    assert await asyncio.to_thread(service.stop) == 0


async def reaches(service: Any, eventually: Any, word: str) -> dict[str, Any]:
    """The status once its word is this one."""
    found: dict[str, Any] = {}

    async def check() -> bool:
        found.update(await service.call("memory.status", {}))
        return bool(found["status"] == word)

    await eventually(check, within=40)
    return found


async def test_notes_are_found_by_meaning_and_the_key_is_shown_nowhere(
    launcher: Any, workspace: Path, write: Any, eventually: Any, endpoint: Endpoint
) -> None:
    write(workspace, NOTES)
    service = await launched(
        launcher,
        workspace,
        "--log-level",
        "debug",
        environment=environment(endpoint, DOCUMENT_INPUT_TYPE="d"),
    )
    embeddings = (await reaches(service, eventually, "ready"))["details"]["embeddings"]
    assert embeddings == {
        "provider": "openai-compatible", "model": "tiny as d", "dimensions": 64,
        "searchMode": "hybrid", "pending": 0, "circuit": "closed",
    }  # fmt: skip
    page = await service.search("ships and boats")
    assert page["coverage"] == "complete"
    assert page["hits"][0]["reference"]["id"] == "memory/harbour.md"
    answer = await service.search_v1("ships and boats")
    assert (answer["provider"], answer["searchMode"]) == ("openai-compatible", "hybrid")
    assert answer["results"][0]["vectorScore"] > 0.2
    assert "stale" not in answer
    await service.call("sidecar.refresh", {"rebuild": True})
    assert (await service.call("memory.status", {}))["status"] == "ready"
    queries = ["ships and boats", "ships and boats"]
    assert endpoint.embedded.total() - len(queries) == len(set(endpoint.embedded) - set(queries))
    assert {headers["Authorization"] for headers in endpoint.headers} == {f"Bearer {KEY}"}
    shown = [str(await service.call("memory.status", {})), str(page), str(answer), launcher.log()]
    shown.append(Path(f"/proc/{service.process.pid}/cmdline").read_text())
    await stopped(service)
    assert all(KEY not in text for text in shown)
    assert all(KEY.encode() not in path.read_bytes() for path in service.state.rglob("*") if path.is_file())


async def test_without_its_endpoint_it_finds_words_says_so_and_recovers_by_itself(
    launcher: Any, workspace: Path, write: Any, eventually: Any, endpoint: Endpoint
) -> None:
    write(workspace, NOTES)
    await endpoint.stop()
    service = await launched(launcher, workspace, environment=environment(endpoint))
    await service.ready()
    told = await reaches(service, eventually, "degraded")

    async def opened() -> bool:
        told.update(await service.call("memory.status", {}))
        return bool(told["details"]["embeddings"]["circuit"] != "closed")

    await eventually(opened)
    assert "embeddings are failing: the embedding endpoint cannot be reached" in told["message"]
    assert "127.0.0.1" not in str(told)
    assert told["details"]["embeddings"]["searchMode"] == "fts-only"
    page = await service.search("blue tin")
    assert page["coverage"] == "partial"
    assert "meaning was not searched" in page["warning"]
    assert "garage opener" in page["hits"][0]["excerpt"]
    answer = await service.search_v1("blue tin")
    assert (answer["searchMode"], answer["stale"]) == ("fts-only", True)
    assert "vectorScore" not in answer["results"][0]
    await endpoint.start()
    await reaches(service, eventually, "ready")
    assert (await service.search("ships and boats"))["hits"]
    assert (await service.search("blue tin"))["coverage"] == "complete"
    await stopped(service)
    embedded = endpoint.embedded.total()
    again = await launched(launcher, workspace, environment=environment(endpoint))
    await reaches(again, eventually, "ready")
    assert endpoint.embedded.total() == embedded, "a restart embeds nothing anew"
    await stopped(again)


async def test_queries_are_refused_while_embeddings_fail_where_that_is_configured(
    launcher: Any, workspace: Path, write: Any, eventually: Any, endpoint: Endpoint
) -> None:
    write(workspace, NOTES)
    endpoint.fault = status(403)
    service = await launched(launcher, workspace, environment=environment(endpoint, ON_FAILURE="error"))
    await service.ready()

    async def opened() -> bool:
        status_now = await service.call("memory.status", {})
        return bool(status_now["details"]["embeddings"]["circuit"] == "open")

    await eventually(opened)
    code, error = await service.error("memory.search", {"version": 2, "query": "blue tin"})
    assert (code, error["code"], error["details"]["code"]) == (503, "UNAVAILABLE", "PROVIDER_FAILED")
    assert error["message"] == "the embedding endpoint forbids the request (403)"
    assert error["retryable"] is True
    assert error["retryAfterMs"] > 0
    code, error = await service.error("memory.search", {"query": "blue tin"})
    assert (code, error["code"]) == (503, "UNAVAILABLE")
    assert error["message"] == "memory search failed: the embedding endpoint forbids the request (403)"
    assert (await service.call("memory.status", {}))["status"] == "degraded"
    await stopped(service)


def test_a_key_that_is_not_there_is_refused_at_start(launcher: Any, workspace: Path) -> None:
    nowhere = Endpoint()
    nowhere.port = 9
    done = launcher.run(
        "serve", "--workspace", str(workspace), "--state-dir", str(launcher.directory / "state"),
        environment={**environment(nowhere), "ENDPOINT_KEY": " "},
    )  # fmt: skip
    assert done.returncode == 2
    assert "embeddings.api_key_env: ENDPOINT_KEY is not set" in done.stderr


@pytest.mark.parametrize("key", ["two words", "bell\x07", "schlüssel", "line\nbreak"])
def test_what_cannot_be_a_key_is_refused_without_being_shown(key: str) -> None:
    settings = EmbeddingSettings(
        provider="openai-compatible", base_url="http://127.0.0.1:9", model="m", api_key_env="K"
    )
    with pytest.raises(SettingsError, match=r"embeddings\.api_key_env: K holds no key") as refused:
        make_embedder(settings, {"K": key})
    assert key not in refused.value.message


@pytest.mark.slow
async def test_doctor_asks_the_endpoint_for_a_vector(
    launcher: Any, workspace: Path, write: Any, endpoint: Endpoint
) -> None:
    write(workspace, NOTES)
    command = ("doctor", "--json", "--workspace", str(workspace), "--port", "0")

    async def found() -> tuple[str, str | None]:
        done = await asyncio.to_thread(launcher.run, *command, environment=environment(endpoint))
        assert KEY not in done.stdout + done.stderr
        findings = json.loads(done.stdout)["findings"]
        item = next(item for item in findings if item["check"] == "embeddings")
        return item["message"], item.get("action")

    assert await found() == ("model tiny answers (64 dimensions)", None)
    endpoint.fault = status(401)
    assert await found() == (
        "the embedding endpoint does not accept the API key (401)",
        "correct the key in the variable that embeddings.api_key_env names",
    )
    endpoint.fault = status(503)
    assert (await found())[1] == "read the log of the endpoint, and start it again"
    await endpoint.stop()
    assert (await found())[1] == "start the endpoint, or correct [embeddings]"


@pytest.mark.slow
async def test_the_index_command_fills_in_vectors_and_search_uses_them(
    launcher: Any, workspace: Path, write: Any, endpoint: Endpoint
) -> None:
    write(workspace, NOTES)
    common = ("--workspace", str(workspace), "--state-dir", str(launcher.directory / "state"))
    where = environment(endpoint)
    done = await asyncio.to_thread(launcher.run, "index", *common, environment=where)
    assert done.returncode == 0, done.stderr
    embedded = endpoint.embedded.total()
    assert embedded == len(endpoint.embedded) > 0
    found = await asyncio.to_thread(
        launcher.run, "search", "boats", "--min-score", "0", *common, environment=where
    )
    assert "harbour" in found.stdout
    assert endpoint.embedded.total() == embedded + 1
    await endpoint.stop()
    done = await asyncio.to_thread(launcher.run, "search", "harbour", *common, environment=where)
    assert "harbour" in done.stdout


@pytest.mark.slow
async def test_killed_in_the_middle_of_the_fill_it_embeds_only_what_is_missing(
    launcher: Any, workspace: Path, write: Any, eventually: Any, endpoint: Endpoint
) -> None:
    write(workspace, {f"memory/n{n}.md": f"- thing number {n} in a row of many\n" for n in range(300)})

    async def slowly(_request: Any, _asked: Any) -> None:
        await asyncio.sleep(0.1)

    endpoint.fault = slowly
    lost = 0
    for kill_at in (40, 120, 220):
        service = await launched(launcher, workspace, environment=environment(endpoint))

        async def far_enough(least: int = kill_at) -> bool:
            return endpoint.embedded.total() >= least

        await eventually(far_enough, within=60, pause=0.005)
        service.process.kill()
        service.process.wait()
        lost += 2 * 32  # one batch on the wire, and one that was answered but not stored
    service = await launched(launcher, workspace, environment=environment(endpoint))
    await reaches(service, eventually, "ready")
    assert len(endpoint.embedded) == 300
    assert endpoint.embedded.total() <= 300 + lost
    assert (await service.search("thing number 217"))["coverage"] == "complete"
    await stopped(service)
