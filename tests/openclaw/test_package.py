"""The plugin as it is handed over: one version with the service, and only what it needs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import sidecar

PLUGIN = Path(__file__).parents[2] / "adapters" / "openclaw"
PACKAGE = json.loads((PLUGIN / "package.json").read_text())
MANIFEST = json.loads((PLUGIN / "openclaw.plugin.json").read_text())
SOURCES = [PLUGIN / "index.js", *sorted((PLUGIN / "src").glob("*.js"))]
LONGEST_MODULE = 400


def test_plugin_and_service_have_one_version() -> None:
    assert PACKAGE["version"] == sidecar.__version__
    assert MANIFEST["version"] == sidecar.__version__


def test_the_manifest_takes_the_memory_slot_with_a_closed_configuration() -> None:
    assert MANIFEST["kind"] == "memory"
    assert MANIFEST["contracts"]["tools"] == ["memory_search", "memory_get"]
    assert MANIFEST["configSchema"]["additionalProperties"] is False


def test_the_plugin_depends_on_nothing_but_its_host() -> None:
    assert "dependencies" not in PACKAGE
    assert list(PACKAGE["peerDependencies"]) == ["openclaw"]
    imported = {
        name for path in SOURCES for name in re.findall(r'^import .* from "(.+)";$', path.read_text(), re.M)
    }
    assert {name for name in imported if not name.startswith(("node:", "./"))} == set()


def test_the_plugin_starts_no_process_and_writes_no_file() -> None:
    text = "\n".join(path.read_text() for path in SOURCES)
    assert not re.findall(
        r"child_process|\b(?:writeFile|appendFile|mkdir|createWriteStream|unlink|rm)\b", text
    )


def test_modules_of_the_plugin_stay_small() -> None:
    assert {path.name for path in SOURCES if len(path.read_text().splitlines()) > LONGEST_MODULE} == set()


@pytest.mark.slow
def test_the_packed_plugin_holds_what_it_needs_and_no_more(tmp_path: Path) -> None:
    program = shutil.which("npm")
    assert program is not None, "packing the plugin needs npm"
    packed = subprocess.run(
        [program, "pack", "--json", "--pack-destination", str(tmp_path), str(PLUGIN)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    (described,) = json.loads(packed.stdout)
    files = {item["path"] for item in described["files"]}
    own = {str(path.relative_to(PLUGIN)) for path in SOURCES}
    assert files == own | {"package.json", "openclaw.plugin.json", "README.md", "LICENSE"}
