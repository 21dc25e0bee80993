"""The shape of the house (sidecar/DESIGN.md) is held by tests: tiers, purity, sizes, and the documents."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import sidecar

PACKAGE = Path(sidecar.__file__).parent
REPOSITORY = Path(__file__).parents[2]
TIERS: dict[str, int] = {
    "domain": 0,
    "policy": 1, "text": 1, "ranking": 1, "wire": 1, "settings": 1, "logs": 1,
    "corpus": 2, "index": 2, "embedding": 2,
    "service": 3, "host": 3,
    "adapters": 4,
    "api": 5, "client": 5, "mcp": 5,
    "runtime": 6, "benchmark": 6,
    "cli": 7,
    "__main__": 8,
}  # fmt: skip
PURE = ("domain", "policy", "text", "ranking", "wire")
IMPURE_MODULES = frozenset(
    {"asyncio", "os", "socket", "subprocess", "time", "shutil", "tempfile", "sqlite3",
     "aiohttp", "aiosqlite", "tantivy", "hnswlib", "watchfiles", "random", "secrets"}
)  # fmt: skip
LONGEST_MODULE = 400
LONGEST_FUNCTION = 70


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        dotted = [part for part in parts if part != "__init__"]
        found[".".join(["sidecar", *dotted])] = path
    spec = importlib.util.find_spec("sidecar.adapters")
    assert spec is not None
    for location in spec.submodule_search_locations or ():
        for path in sorted(Path(location).rglob("*.py")):
            parts = path.relative_to(location).with_suffix("").parts
            dotted = [part for part in parts if part != "__init__"]
            found[".".join(["sidecar.adapters", *dotted])] = path
    return found


MODULES = modules()


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


def room(name: str) -> str:
    """The first name below `sidecar`: the room a module stands in."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


def imports(name: str, *, only_top: bool = False) -> set[str]:
    nodes = tree(name).body if only_top else list(ast.walk(tree(name)))
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{name}: imports are absolute"
            found.add(node.module)
            found |= {
                f"{node.module}.{alias.name}"
                for alias in node.names
                if f"{node.module}.{alias.name}" in MODULES
            }
    return found


def test_every_module_stands_in_a_room_of_the_tier_table() -> None:
    unknown = {name for name in MODULES if room(name) and room(name) not in TIERS | {"config": 0}}
    assert unknown == set()


@pytest.mark.parametrize("name", sorted(MODULES))
def test_imports_point_downward_or_stay_in_their_room(name: str) -> None:
    own = TIERS.get(room(name), 0)
    for imported in imports(name):
        target = room(imported) if imported.startswith("sidecar.") else ""
        if target and target != room(name):
            assert TIERS.get(target, 0) < own, f"{name} imports {imported}"


@pytest.mark.parametrize("name", sorted(name for name in MODULES if room(name) in PURE))
def test_the_pure_rooms_touch_no_file_socket_clock_or_loop(name: str) -> None:
    reached = {imported.split(".")[0] for imported in imports(name)}
    assert reached & IMPURE_MODULES == set()


def test_there_are_no_import_cycles() -> None:
    graph = {name: {target for target in imports(name) if target in MODULES} for name in MODULES}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path, name])
        if name in done:
            return
        for target in graph[name] - {name}:
            if not name.startswith(target + "."):
                visit(target, (*path, name))
        done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.slow
def test_every_module_can_be_imported_alone() -> None:
    program = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    for loaded in [module for module in sys.modules if module.startswith("sidecar")]:
        del sys.modules[loaded]
"""
    names = [name for name in MODULES if name != "sidecar.__main__"]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *names], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_modules_and_functions_stay_small() -> None:
    long = {name: len(path.read_text().splitlines()) for name, path in MODULES.items()}
    assert {name: size for name, size in long.items() if size > LONGEST_MODULE} == {}
    functions = {
        f"{name}:{node.name}": node.end_lineno - node.lineno
        for name in MODULES
        for node in ast.walk(tree(name))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
    }
    assert {name: size for name, size in functions.items() if size > LONGEST_FUNCTION} == {}


def test_every_module_and_public_class_says_what_it_is_for() -> None:
    silent = [name for name in MODULES if not ast.get_docstring(tree(name))]
    for name in MODULES:
        for node in tree(name).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                public = not node.name.startswith("_")
                if public and not ast.get_docstring(node):
                    silent.append(f"{name}.{node.name}")
    assert silent == []


def test_the_design_document_draws_the_same_tiers() -> None:
    text = (PACKAGE / "DESIGN.md").read_text(encoding="utf-8")
    drawn: dict[str, int] = {}
    for line in text.splitlines():
        match = re.match(r"^    (\d)  ([a-z_ ]+?)(?:  .*)?$", line)
        if match:
            drawn |= {name: int(match[1]) for name in match[2].split()}
    assert drawn == TIERS


def test_the_design_document_names_only_modules_that_exist() -> None:
    text = (PACKAGE / "DESIGN.md").read_text(encoding="utf-8")
    rooms = "|".join(TIERS)
    named = set(re.findall(rf"`((?:{rooms})/\w+\.py)`", text))
    missing = {name for name in named if f"sidecar.{name[:-3].replace('/', '.')}" not in MODULES}
    assert named
    assert missing == set()


def test_the_top_level_holds_nothing_but_what_belongs_there() -> None:
    listed = subprocess.run(
        ["git", "ls-tree", "--name-only", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    allowed = {"pyproject.toml", "README.md", "sidecar", "adapters", "config", "tests", "examples"}
    assert {name for name in listed.stdout.split() if not name.startswith(".")} == allowed
