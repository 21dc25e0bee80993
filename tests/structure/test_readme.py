"""What the README shows is what the service does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from readme_tables import TABLES, rewritten
from readme_tables import shown as shown_tables

from sidecar.api.app import build_app
from sidecar.api.dispatch import Dispatcher
from sidecar.api.door import Door
from sidecar.api.metrics import Figures
from sidecar.api.websocket import Sockets
from sidecar.cli import cli
from sidecar.domain import errors
from sidecar.settings.keys import ENVIRONMENT, FIELDS, env_name
from sidecar.wire.methods import METHODS

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
QUESTION = {"query": "who serviced the boiler?", "maxResults": 1}


def shown(marker: str) -> Any:
    """The JSON block behind a marker comment."""
    found = re.search(rf"<!-- {marker} -->\s*```json\n(.+?)\n```", README, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def without_scores(value: Any) -> Any:
    """Scores move a little with the date, everything else must not."""
    if isinstance(value, dict):
        return {k: without_scores(v) for k, v in value.items() if k.lower()[-5:] != "score"}
    return [without_scores(item) for item in value] if isinstance(value, list) else value


async def test_the_answers_in_the_readme_are_those_of_the_service(launcher: Any) -> None:
    service = launcher.serve(REPOSITORY / "examples" / "workspace")
    await service.ready()
    v1 = await service.call("memory.search", QUESTION)
    v2 = await service.call("memory.search", {"version": 2, **QUESTION})
    assert without_scores(v1) == without_scores(shown("v1"))
    assert without_scores(v2) == without_scores(shown("v2"))
    assert v1["results"][0].keys() == shown("v1")["results"][0].keys()
    assert service.stop() == 0


@pytest.mark.parametrize("command", sorted(cli.commands))
def test_every_command_is_in_the_readme(command: str) -> None:
    assert re.search(rf"^\| `{command}[ `]", README, re.MULTILINE)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_is_in_the_readme(method: str) -> None:
    assert f"| `{method}` |" in README


def test_every_error_code_that_can_be_sent_is_in_the_readme() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    codes = {cls.details_code for cls in classes if issubclass(cls, errors.SidecarError)} - {None}
    assert {code for code in codes if code not in README} == set()


def test_every_route_is_in_the_readme() -> None:
    door = Door(match=lambda _: None, allowed_hosts=(), allowed_origins=())
    dispatcher = Dispatcher({})
    sockets = Sockets(door=door, dispatcher=dispatcher)
    app = build_app(
        door=door,
        dispatcher=dispatcher,
        readiness=lambda _: (True, {}),
        sockets=sockets,
        figures=lambda: Figures(agents={}, in_work=0, stalls=0, longest_stall=0.0),
    )
    routes = {route.resource.canonical for route in app.router.routes() if route.resource is not None}
    assert routes >= {"/rpc", "/ws", "/metrics"}
    shown = set(re.findall(r"^\| `(?:GET|POST) (/[^`]*)`", README, re.MULTILINE))
    assert routes == shown


def test_every_setting_is_in_the_example_file() -> None:
    example = (REPOSITORY / "config" / "memory-sidecar.example.toml").read_text(encoding="utf-8")
    assert FIELDS
    missing = {key for key in FIELDS if not re.search(rf"\b{re.escape(key.rsplit('.', 1)[-1])}\b", example)}
    assert missing == set()


def test_every_environment_variable_is_in_the_readme() -> None:
    keyed = {name for key in FIELDS if (name := env_name(key)) is not None}
    assert {name for name in ENVIRONMENT if name not in README} - keyed == set()
    # Those of keys follow a rule that the README states; it is the code's own.
    assert "`watch.poll_seconds` is `MEMORY_SIDECAR_WATCH_POLL_SECONDS`" in README
    assert env_name("watch.poll_seconds") == "MEMORY_SIDECAR_WATCH_POLL_SECONDS"
    ruled = {f"MEMORY_SIDECAR_{key.upper().replace('.', '_')}" for key in FIELDS}
    assert keyed <= ruled


def test_the_tables_of_settings_flags_metrics_and_reasons_are_those_of_the_code() -> None:
    assert sorted(shown_tables(README)) == sorted(TABLES)
    assert rewritten(README) == README, "run python tests/structure/readme_tables.py"


def test_every_link_within_the_readme_leads_somewhere() -> None:
    headings = {
        re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", README, re.MULTILINE)
    }
    links = re.findall(r"\]\(([^)\s]+)\)", README)
    assert {link for link in links if link.startswith("#") and link[1:] not in headings} == set()
    files = {link.partition("#")[0] for link in links if not link.startswith(("#", "http"))}
    assert {name for name in files if not (REPOSITORY / name).exists()} == set()


def test_every_file_that_the_readme_names_in_config_and_examples_exists() -> None:
    named = set(re.findall(r"(?<![\w./])(?:config|examples)/[\w./-]+\w", README))
    assert {name for name in named if not (REPOSITORY / name).exists()} == set()
