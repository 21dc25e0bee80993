"""The table of settings: every fault is one line that names the key and what it accepts, never a secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sidecar.adapters.powercontext import make
from sidecar.adapters.powercontext.options import Options, Token, read_options

from sidecar.domain.errors import SettingsError
from sidecar.domain.provider import ProviderSetup

URL = "http://127.0.0.1:8000"


def test_only_the_endpoint_is_needed_and_a_search_has_1200_ms() -> None:
    options = read_options("main", {"endpoint": URL + "/"})
    assert options == Options(endpoint=URL)
    assert (options.search_timeout_seconds, options.max_results, options.min_score) == (1.2, 50, 0)


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ({}, 'agents.main.powercontext.endpoint is required, for example "http://127.0.0.1:8000"'),
        (
            {"endpoint": "ftp://x"},
            "agents.main.powercontext.endpoint accepts an http:// or https:// address without user, "
            "query or fragment",
        ),
        ({"endpoint": URL, "endpont": 1}, 'endpont is not a known key, did you mean "endpoint"?'),
        ({"endpoint": URL, "token": "s3cret-s3cret-s3cret"}, "token is not a known key"),
        ({"endpoint": URL, "token_env": "no name"}, "token_env accepts the name of an environment variable"),
        (
            {"endpoint": URL, "token_env": "A", "token_file": "b"},
            "agents.main.powercontext accepts one of token_env and token_file, it has both",
        ),
        ({"endpoint": URL, "search_timeout_seconds": 0}, "accepts a number from 0.1 to 60, not 0"),
        ({"endpoint": URL, "timeout_seconds": "5"}, 'accepts a number from 0.1 to 60, not "5"'),
        ({"endpoint": URL, "max_results": 101}, "max_results accepts an integer from 1 to 100, not 101"),
        ({"endpoint": URL, "min_score": 1.5}, "min_score accepts a number from 0 to 1, not 1.5"),
    ],
)
def test_a_fault_is_one_line_with_the_key_and_what_it_accepts(table: dict[str, Any], line: str) -> None:
    with pytest.raises(SettingsError) as caught:
        make(ProviderSetup(agent_id="main", options=table))
    assert line in caught.value.message
    assert caught.value.message.startswith("agents.main.powercontext")
    assert "s3cret" not in caught.value.message
    assert "\n" not in caught.value.message


def test_a_token_that_is_named_and_cannot_be_had_is_refused_at_start(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"^agents\.main\.powercontext: environment variable STORE is not set$"
    ):
        Token("main", Options(endpoint=URL, token_env="STORE"), {})
    path = tmp_path / "token"
    path.write_text("a-secret\n")
    path.chmod(0o644)
    with pytest.raises(SettingsError, match=r"^agents\.main\.powercontext: .*is readable by others"):
        Token("main", Options(endpoint=URL, token_file=path), {})
    path.chmod(0o600)
    token = Token("main", Options(endpoint=URL, token_file=path), {})
    assert token.header() == {"Authorization": "Bearer a-secret"}
    assert "a-secret" not in repr(token)
    path.write_text("")
    token.reload()
    assert token.header() == {"Authorization": "Bearer a-secret"}
    assert Token("main", Options(endpoint=URL), {}).header() == {}
