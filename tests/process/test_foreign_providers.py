"""A provider that somebody else installed is served by its name, or refused at start in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sidecar.domain.errors import SettingsError
from sidecar.runtime.foreign import ForeignAgent
from sidecar.service.audit import Audit
from sidecar.settings.load import Flags, load

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "provider"
RECORDS = (
    {
        "id": "boiler",
        "text": "Boiler serviced by Halden and Sons.\nNext visit October.",
        "url": "https://x.example/b",
    },
    {"id": "roof", "text": "The roof leaks."},
)


def installed(folder: Path, name: str, target: str, module: str = "") -> dict[str, str]:
    """A distribution with one entry point, as it lies in site-packages; gives the environment to find it."""
    info = folder / f"{name}_dist-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-dist\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[memory_sidecar.providers]\n{name} = {target}\n")
    (folder / f"{name}_module.py").write_text(module)
    return {"PYTHONPATH": str(folder)}


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The example package, really installed; gives the environment to find it."""
    folder = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source") / "provider"
    source.mkdir()
    for file in EXAMPLE.iterdir():
        if file.is_file():
            (source / file.name).write_bytes(file.read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation",
         "--disable-pip-version-check", "--target", str(folder), str(source)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {"PYTHONPATH": str(folder)}


def configuration(folder: Path, provider: str, *lines: str) -> str:
    config = folder / "sidecar.toml"
    config.write_text("\n".join([f'[agents.main]\nprovider = "{provider}"', *lines]))
    return str(config)


async def test_the_example_is_installed_and_served_like_any_provider(
    launcher: Any, tmp_path: Path, example: dict[str, str]
) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    config = configuration(tmp_path, "records", "[agents.main.records]", f'file = "{file}"')
    service = launcher.serve(None, "--config", config, environment=example)
    await service.ready()
    answer = await service.search("boiler serviced")
    assert answer["providerId"] == "records"
    (hit,) = answer["hits"]
    assert (hit["excerpt"], hit["score"]) == (RECORDS[0]["text"], 1.0)
    assert hit["citations"][0]["url"] == RECORDS[0]["url"]
    read = await service.call("memory.get", {"reference": hit["reference"], "from": 2})
    assert (read["text"], read["from"], read["lines"]) == ("Next visit October.", 2, 1)
    assert (await service.call("memory.status", {}))["details"] == {"records": 2}
    # The text under the name changes: the old name gives nothing, the next search the new text.
    file.write_text(json.dumps({"id": "boiler", "text": "Boiler replaced."}) + "\n")
    assert (await service.call("memory.get", {"reference": hit["reference"]}))["status"] == "not_found"
    assert (await service.excerpts("boiler")) == ["Boiler replaced."]
    file.write_text("not a record\n")
    status, error = await service.error("memory.search", {"version": 2, "query": "boiler"})
    assert (status, str(file) in error["message"]) == (503, False)
    assert (await service.call("memory.status", {}))["status"] == "unavailable"
    _, error = await service.error("memory.search", {"query": "boiler"})
    assert error["message"].startswith('memory plugin "records" uses the provider runtime')
    assert await service.call("sidecar.refresh", {"purge": True}) == {"agentId": "main"}
    _, frame = await service.post("/rpc/manager.status", {}, token=service.host_token)
    assert frame["error"]["message"] == (
        'memory plugin "records" uses the provider runtime; open it with provider.open'
    )
    assert service.stop() == 0


@pytest.mark.slow
def test_the_command_line_asks_it_without_a_service(
    launcher: Any, tmp_path: Path, example: dict[str, str]
) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text(json.dumps(RECORDS[1]))
    config = configuration(tmp_path, "records", "[agents.main.records]", f'file = "{file}"')
    found = launcher.run("search", "roof", "--config", config, environment=example)
    assert (found.returncode, found.stdout) == (0, "roof  1.000\n    The roof leaks.\n\n")
    read = launcher.run("get", "roof", "--config", config, environment=example)
    assert (read.returncode, read.stdout) == (0, "The roof leaks.\n")


def provider(name: str, body: str = "async def open(self, agent_id, context, purpose): ...") -> str:
    """The source of a module whose provider has this id and this body."""
    return (
        f"class Provider:\n    provider_id = {name!r}\n    {body}\ndef make(setup):\n    return Provider()\n"
    )


NO_START = (
    "async def open(self, agent_id, context, purpose): ...\n"
    "    async def start(self): raise OSError('no store')\n"
)
PICKY = (
    "from sidecar.domain.errors import SettingsError\n"
    "def make(setup): raise SettingsError('agents.main.picky.file is required')\n"
)


@pytest.mark.parametrize(
    ("name", "module", "message"),
    [
        ("nothing", "", "cannot be loaded: AttributeError"),
        ("raising", "def make(setup): raise KeyError('endpoint')", "cannot be loaded: KeyError: 'endpoint'"),
        ("shapeless", provider("shapeless", "pass"), "memory providerRuntime must implement open"),
        ("renamed", provider("memory-sidecar"), 'its provider_id has to be "renamed"'),
        ("memory-sidecar", provider("memory-sidecar"), "is the id of a built-in provider"),
        ("lame", provider("lame", NO_START), '"lame" did not start: OSError: no store'),
        ("picky", PICKY, "agents.main.picky.file is required"),
    ],
)
async def test_a_provider_that_cannot_be_served_is_refused_in_one_line_that_names_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str, message: str
) -> None:
    monkeypatch.syspath_prepend(
        installed(tmp_path / "site", name, f"{name}_module:make", module)["PYTHONPATH"]
    )
    loaded = load(Flags(config=configuration(tmp_path, name)), {"HOME": str(tmp_path)})
    with pytest.raises(SettingsError) as caught:
        await ForeignAgent.open(loaded.settings.agents["main"], loaded, Audit())
    assert message in caught.value.message
    assert "agents.main." in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("name", "module", "message"),
    [
        ("absent", None, '"powercontext" or an installed entry point, not "absent"'),
        (
            "broken",
            "raise ImportError('no such library')",
            '"broken" of broken-dist 1.0 cannot be loaded: ImportError: no such library; '
            "installed: workspace, legacy",
        ),
    ],
)
def test_serve_ends_at_once_with_that_line_and_nothing_else(
    launcher: Any, tmp_path: Path, name: str, module: str | None, message: str
) -> None:
    environment = {}
    if module is not None:
        environment = installed(tmp_path / "site", name, f"{name}_module:make", module)
    config = configuration(tmp_path, name)
    done = launcher.run("serve", "--config", config, "--port", "0", environment=environment)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.strip().splitlines()
    assert f"{config}: agents.main.provider" in line
    assert message in line


async def test_a_provider_is_started_once_and_closed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = (
        "told = []\n"
        "    async def open(self, agent_id, context, purpose): ...\n"
        "    async def start(self): self.told.append('start')\n"
        "    async def aclose(self): self.told.append('close'); raise OSError('gone already')\n"
    )
    folder = installed(tmp_path / "site", "tidy", "tidy_module:make", provider("tidy", body))
    monkeypatch.syspath_prepend(folder["PYTHONPATH"])
    loaded = load(Flags(config=configuration(tmp_path, "tidy")), {"HOME": str(tmp_path)})
    agent = await ForeignAgent.open(loaded.settings.agents["main"], loaded, Audit())
    assert agent.readiness() == (True, {"provider": "tidy"})
    await agent.close()
    assert agent.provider.told == ["start", "close"]  # type: ignore[attr-defined]
