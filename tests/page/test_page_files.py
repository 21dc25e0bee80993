"""The page's files (spec §3): who gets them, what a browser may do with them, and that they are shipped."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from sidecar.api.assets import ASSETS, PAGE_PATHS, START
from sidecar.policy.access import Allow
from sidecar.service.audit import Audit

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "sidecar" / "api" / "page"
SOURCES = sorted(FOLDER.glob("*.js"))
LONGEST_MODULE = 400


def fetch(
    service: Any, path: str, *, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    """One raw request without a token; the path goes out as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
    try:
        connection.putrequest(method, path, skip_host=bool(headers and "Host" in headers))
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        return response.status, {k.lower(): v for k, v in response.headers.items()}, response.read()
    finally:
        connection.close()


def directives(policy: str) -> dict[str, str]:
    return {name: rest for name, _, rest in (part.strip().partition(" ") for part in policy.split(";"))}


@pytest.mark.parametrize("path", sorted(PAGE_PATHS))
def test_every_file_of_the_page_is_given_without_a_token_and_under_strict_rules(
    shared_example: Any, path: str
) -> None:
    status, headers, body = fetch(shared_example, path)
    name = path.rsplit("/", 1)[1] or START
    assert status == 200
    assert body == (resources.files("sidecar.api") / "page" / name).read_bytes()
    assert headers["content-type"] == f"{ASSETS.get(name, 'text/html')}; charset=utf-8"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    policy = directives(headers["content-security-policy"])
    assert {policy[name] for name in ("default-src", "base-uri", "form-action", "frame-ancestors")} == {
        "'none'"
    }
    assert {policy[f"{kind}-src"] for kind in ("script", "style", "img", "connect")} == {"'self'"}
    assert policy["require-trusted-types-for"] == "'script'"
    assert not re.search(r"unsafe|\*|https?:|data:|blob:", headers["content-security-policy"])
    assert "set-cookie" not in headers


@pytest.mark.parametrize("path", ["/", "/page/page.js"])
def test_head_says_what_get_would_and_gives_no_body(shared_example: Any, path: str) -> None:
    _, wanted, body = fetch(shared_example, path)
    status, headers, nothing = fetch(shared_example, path, method="HEAD")
    assert (status, nothing) == (200, b"")
    assert headers["content-length"] == str(len(body))
    assert headers["content-security-policy"] == wanted["content-security-policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/page/nothing.js",
        "/page/",
        "/page",
        "/page/index.html",
        "/page/../door.py",
        "/page/..%2fdoor.py",
        "/page/%2e%2e/door.py",
        "/page/..%5cdoor.py",
        "/page//etc/passwd",
        "/page/page.js/",
        "/page/page.js%00",
        "/page/PAGE.JS",
        "/favicon.ico",
        "/index.html",
        "//",
    ],
)
def test_nothing_else_is_a_file_with_a_token_404_and_without_one_401(shared_example: Any, path: str) -> None:
    assert fetch(shared_example, path)[0] == 401
    status, _, body = fetch(shared_example, path, headers=shared_example.headers())
    assert status == 404
    assert json.loads(body)["code"] == "INVALID_REQUEST"


@pytest.mark.parametrize("path", ["/", "/page/page.js"])
def test_the_page_is_only_read(shared_example: Any, path: str) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert fetch(shared_example, path, method=method)[0] == 401
        assert fetch(shared_example, path, method=method, headers=shared_example.headers())[0] == 405


@pytest.mark.parametrize("path", ["/", "/page/page.js"])
def test_the_door_keeps_foreign_hosts_and_origins_from_the_page_too(shared_example: Any, path: str) -> None:
    assert fetch(shared_example, path, headers={"Host": "evil.example"})[0] == 403
    assert fetch(shared_example, path, headers={"Origin": "https://evil.example"})[0] == 403
    assert fetch(shared_example, path, headers={"Origin": "null"})[0] == 403
    assert fetch(shared_example, path, headers={"Origin": shared_example.url})[0] == 200


async def test_what_the_page_asks_from_its_own_origin_is_answered_and_from_another_is_not(
    shared_example: Any,
) -> None:
    status, frame = await shared_example.post(
        "/rpc/sidecar.caller", {}, headers={"Origin": shared_example.url}
    )
    assert (status, frame["payload"]["role"]) == (200, "operator")
    status, _ = await shared_example.post("/rpc/sidecar.caller", {}, headers={"Origin": "http://127.0.0.1:1"})
    assert status == 403


def test_the_table_of_files_is_the_folder() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {START, *ASSETS}


def test_every_file_of_the_page_is_in_the_wheel() -> None:
    program = """
import json, warnings
from setuptools.dist import Distribution
warnings.simplefilter("ignore")
dist = Distribution({"script_name": "setup.py"})
dist.parse_config_files()
dist.include_package_data = False
command = dist.get_command_obj("build_py")
command.ensure_finalized()
print(json.dumps({package: names for package, _, _, names in command.data_files}))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    shipped = json.loads(done.stdout.splitlines()[-1])["sidecar.api.page"]
    assert set(shipped) == {START, *ASSETS}


def test_the_page_names_nothing_that_another_machine_would_have_to_give() -> None:
    for path in FOLDER.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//[a-z0-9-]+\.[a-z]|@import|url\(|data:", text), path.name
    start = (FOLDER / START).read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|<a [^>]*href=\"[^#]", start)
    assert set(re.findall(r'(?:src|href)="([^"#][^"]*)"', start)) <= PAGE_PATHS


def test_the_page_keeps_nothing_and_makes_no_markup_of_text() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    forbidden = (
        r"localStorage|sessionStorage|indexedDB|document\.cookie|caches\b|serviceWorker|history\."
        r"|innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|setHTML"
        r"|\beval\b|new Function|setTimeout\(\s*[\"'`]|\.href|location|window\.open|postMessage"
    )
    assert re.findall(forbidden, text) == []


def test_modules_of_the_page_stay_small_and_say_what_they_are_for() -> None:
    for path in SOURCES:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= LONGEST_MODULE, path.name
        assert lines[0].startswith("/* "), path.name


def test_whoever_watches_health_pushes_no_other_decision_out_of_the_audit() -> None:
    audit = Audit(most=10)
    who = {"token_name": "t", "authority": "operator", "agent": "main"}
    audit.decided(Allow("operator"), method="search", **who)
    for _ in range(100):
        audit.decided(Allow("health-full"), method="health", **who)
        audit.decided(Allow("health-full"), method="health", **(who | {"agent": "second"}))
    assert [(item.method, item.agent) for item in audit.recent()] == [
        ("health", "second"),
        ("health", "main"),
        ("search", "main"),
    ]
    assert audit.allowed == 201
    audit.decided(Allow("operator"), method="search", **who)
    audit.decided(Allow("operator"), method="search", **who)
    audit.decided(Allow("health-full"), method="health", **who)
    assert [item.method for item in audit.recent()] == [
        "health",
        "search",
        "search",
        "health",
        "health",
        "search",
    ]
