"""The command line: what it sends, what it prints, what it exits with (spec §2)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from sidecar.cli.memory import reference_of
from sidecar.cli.output import print_hits
from sidecar.cli.service import watched
from sidecar.client import SidecarClient
from sidecar.domain.errors import InvalidRequest, Unavailable

Run = Callable[..., Result]
REPOSITORY = Path(__file__).parents[2]
WS = ("--workspace", "ws")
TOKEN = '[[tokens]]\nname = "a"\nrole = "operator"\nsecret_file = "secret"\n'
NOTHING = "no results; `memory-sidecar why PATH[:LINE] QUERY` says why a note is not found\n"
REFERENCE = {"providerId": "memory-sidecar", "id": "memory/a.md", "fragment": "L3-L4"}
HIT = {"reference": REFERENCE, "excerpt": "- one\n- two", "score": 0.8125, "source": "memory"}
PAGE: dict[str, object] = {"version": 2, "agentId": "main", "providerId": "memory-sidecar", "hits": [HIT]}


def test_search_prints_place_score_and_excerpt_and_asks_exactly_what_was_said(run: Run, desk: Any) -> None:
    desk.answers["memory.search"] = PAGE
    result = run(
        "search", "the", "tea", "--max-results", "3", "--min-score", "0.2", "--source", "memory", *WS
    )
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "memory/a.md:3  0.812\n    - one\n    - two\n\n"
    assert desk.asked == [
        (
            "memory.search",
            {
                "version": 2, "query": "the tea", "agentId": "main",
                "maxResults": 3, "minScore": 0.2, "sources": ["memory"],
            },
        )
    ]  # fmt: skip


def test_search_filters_are_asked_of_the_service(run: Run, desk: Any) -> None:
    desk.answers["sidecar.search"] = {**PAGE, "truncated": True}
    flags = ("--path", "memory/*.md", "--since", "2026-01-02", "--until", "2026-02-03", "--max-chars", "90")
    result = run("search", "tea", *flags, *WS)
    assert (result.exit_code, result.stderr) == (0, "more was found than --max-chars allows\n")
    filters = {"path": "memory/*.md", "since": "2026-01-02", "until": "2026-02-03", "maxChars": 90}
    assert desk.asked == [
        ("sidecar.search", {"version": 2, "query": "tea", "agentId": "main", **filters}),
    ]
    for other, flag in (("--v1", "--path"), ("--explain", "--max-chars")):
        assert run("search", "tea", other, *flags, *WS).stderr.startswith(
            f"memory-sidecar: {other} has no {flag}"
        )


def test_a_place_is_a_link_to_its_file_on_a_terminal(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    print_hits(PAGE, workspace=home / "ws")
    shown = capsys.readouterr().out
    assert (home / "ws" / "memory" / "a.md").as_uri() in shown
    assert "memory/a.md:3" in shown


def test_search_json_is_the_payload_itself(run: Run, desk: Any) -> None:
    desk.answers["memory.search"] = PAGE
    assert json.loads(run("search", "tea", "--json", *WS).stdout) == PAGE


def test_search_v1_asks_and_prints_the_file_shaped_contract(run: Run, desk: Any) -> None:
    hit = {
        "path": "MEMORY.md",
        "startLine": 1,
        "endLine": 1,
        "score": 0.5,
        "snippet": "- tea",
        "source": "memory",
    }
    desk.answers["memory.search"] = {
        "agentId": "main",
        "results": [hit],
        "stale": True,
        "warning": "old",
        "action": "Run",
    }
    result = run("search", "tea", "--v1", *WS)
    assert result.stdout == "MEMORY.md:1  0.500\n    - tea\n\n"
    assert result.stderr == "warning: old\nRun\n"
    assert desk.asked[0][1] == {"query": "tea", "agentId": "main"}


def test_a_hit_of_a_provider_without_scores_shows_its_place_alone(run: Run, desk: Any) -> None:
    hit = {"reference": {"providerId": "records", "id": "r/1"}, "excerpt": "tea at four"}
    desk.answers["memory.search"] = {**PAGE, "hits": [hit]}
    assert run("search", "tea", *WS).stdout == "r/1\n    tea at four\n\n"


def test_search_explain_prints_what_the_answer_adds_to_a_plain_hit(run: Run, desk: Any) -> None:
    desk.answers["sidecar.explain"] = {
        **PAGE,
        "hits": [{**HIT, "parts": {"text": 0.5, "adjustments": {"recency": 0.1}}}],
    }
    result = run("search", "tea", "--explain", *WS)
    assert result.stdout.splitlines()[-3:] == [
        "    parts.text: 0.5",
        "    parts.adjustments.recency: 0.1",
        "",
    ]


def test_an_empty_result_is_said_on_stderr_alone_and_a_partial_one_says_why(run: Run, desk: Any) -> None:
    desk.answers["memory.search"] = {**PAGE, "hits": []}
    result = run("search", "tea", *WS)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == NOTHING
    desk.answers["memory.search"] = {
        **PAGE,
        "hits": [],
        "coverage": "partial",
        "warning": "first scan running",
    }
    assert run("search", "tea", *WS).stderr == f"{NOTHING}warning: first scan running\n"


@pytest.mark.parametrize(
    "error", [Unavailable("the provider failed"), InvalidRequest("query\nmust be short")]
)
def test_a_failure_never_looks_like_an_empty_result(error: Any, run: Run, desk: Any) -> None:
    desk.answers["memory.search"] = error
    result = run("search", "tea", *WS)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"memory-sidecar: {' '.join(error.message.split())}\n"


def test_notes_cannot_steer_the_terminal(run: Run, desk: Any) -> None:
    desk.answers["memory.search"] = {**PAGE, "hits": [{**HIT, "excerpt": "\x1b[2Jcleared\x9b\x07"}]}
    assert "\x1b" not in run("search", "tea", *WS).stdout


@pytest.mark.parametrize(
    ("identifier", "reference"),
    [
        ("memory/a.md", {"id": "memory/a.md"}),
        ("memory/a.md#L3-L7", {"id": "memory/a.md", "fragment": "L3-L7"}),
        ("memory/a.md#L3", {"id": "memory/a.md", "fragment": "L3-L3"}),
        ("memory/a.md#L7-L7@c90-97", {"id": "memory/a.md", "fragment": "L7-L7@c90-97"}),
        ("memory/c#.md", {"id": "memory/c#.md"}),
        ("memory/c#4.md#L1-L2", {"id": "memory/c#4.md", "fragment": "L1-L2"}),
        ("#L3", {"id": "#L3"}),
        ("memory/a.md#Line", {"id": "memory/a.md#Line"}),
    ],
)
def test_an_id_may_name_lines(identifier: str, reference: dict[str, str]) -> None:
    assert reference_of(identifier) == reference


def test_get_prints_the_text_exactly_and_says_where_it_goes_on(run: Run, desk: Any) -> None:
    desk.answers["memory.get"] = {
        "status": "ok",
        "text": "one\t\x1b[0m\ntwo",
        "truncated": True,
        "nextFrom": 9,
    }
    result = run("get", "memory/a.md#L3-L4", "--from", "3", "--lines", "2", "--revision", "r1", *WS)
    assert (result.exit_code, result.stdout) == (0, "one\t\x1b[0m\ntwo\n")
    assert result.stderr == "truncated: continue with --from 9\n"
    assert desk.asked[0][1] == {
        "agentId": "main", "reference": {**REFERENCE, "revision": "r1"}, "from": 3, "lines": 2,
    }  # fmt: skip


def test_get_past_the_end_of_a_note_exits_1_and_says_so(run: Run, desk: Any) -> None:
    desk.answers["memory.get"] = {"status": "ok", "text": "", "from": 99, "lines": 0}
    result = run("get", "memory/a.md", "--from", "99", *WS)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "not found: memory/a.md ends before line 99\n"
    desk.answers["memory.get"] = {"status": "ok", "text": "", "from": 1, "lines": 0}
    assert run("get", "memory/empty.md", *WS).exit_code == 0


def test_get_of_nothing_exits_1_and_says_so(run: Run, desk: Any) -> None:
    desk.answers["memory.get"] = {"status": "not_found"}
    result = run("get", "memory/none.md", *WS)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "not found: memory/none.md\n")
    assert run("get", "memory/none.md", "--json", *WS).exit_code == 1


@pytest.mark.parametrize(("word", "code"), [("ready", 0), ("degraded", 1), ("unavailable", 2), ("odd", 2)])
def test_status_exits_with_the_state(word: str, code: int, run: Run, desk: Any) -> None:
    desk.answers["memory.status"] = {
        "agentId": "main", "providerId": "memory-sidecar", "status": word, "message": "why",
        "details": {"files": 2, "skipped": [{"path": "a", "reason": "link"}], "none": []},
    }  # fmt: skip
    result = run("status", *WS)
    assert result.exit_code == code
    assert result.stdout.splitlines() == [
        f"main: {word} (memory-sidecar): why", "  files: 2", "  skipped.1.path: a",
        "  skipped.1.reason: link",        "  none: none",
    ]  # fmt: skip
    assert json.loads(run("status", "--json", *WS).stdout)["status"] == word


def test_index_beside_a_running_service_lets_that_service_do_it(run: Run, desk: Any) -> None:
    desk.answers["sidecar.refresh"] = {"agentId": "main", "files": 2, "units": 7}
    result = run("index", "--rebuild", *WS)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "main: files 2, units 7\n", "")
    assert desk.asked == [("sidecar.refresh", {"agentId": "main", "rebuild": True, "purge": False})]


def test_a_service_that_indexes_is_asked_how_far_it_is_while_somebody_watches(desk: Any) -> None:
    desk.answers["sidecar.refresh"] = {"agentId": "main", "files": 9, "units": 7}
    desk.answers["memory.status"] = {"details": {"files": {"indexed": 7, "pending": 2, "onDisk": 9}}}
    desk.seconds = 0.2
    seen: list[tuple[int, int]] = []

    async def watch() -> object:
        async with SidecarClient.over_socket(desk.state, desk.token("operator")) as client:
            call = client.call("sidecar.refresh", {"agentId": "main"})
            return await watched(client, "main", call, lambda done, total: seen.append((done, total)))

    assert asyncio.run(watch()) == desk.answers["sidecar.refresh"]
    assert set(seen) == {(5, 9)}


def test_shared_flags_stand_before_or_after_the_command_and_the_later_one_wins(run: Run, desk: Any) -> None:
    desk.answers["memory.search"] = PAGE
    assert run("--workspace", "ws", "search", "tea").exit_code == 0
    assert run("--workspace", "/no/such", "search", "tea", "--workspace", "ws").exit_code == 0
    assert run("search", "tea", MEMORY_SIDECAR_WORKSPACE="ws").exit_code == 0


def test_several_agents_without_a_default_need_a_choice(run: Run, home: Path) -> None:
    (home / "two.toml").write_text('[agents.main]\nworkspace = "ws"\n[agents.ops]\nworkspace = "ws"\n')
    result = run("search", "tea", "--config", "two.toml")
    assert result.exit_code == 2
    assert result.stderr == "memory-sidecar: --agent is required, configured agents are main, ops\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("search",), "Missing argument 'QUERY...'. (see memory-sidecar search --help)"),
        (
            ("search", "x", "--max-results", "0"),
            "Invalid value for '--max-results': 0 is not in the range x>=1.",
        ),
        (("search", "x", "--v1", "--explain"), "--v1 has no --explain (see memory-sidecar search --help)"),
        (("serve", "--port", "http", *WS), '--port accepts an integer from 0 to 65535, not "http"'),
        (("sarch",), "No such command 'sarch'."),
        (("token", "--role", "root"), "Invalid value for '--role': 'root' is not one of"),
        (("config", "check"), "config check needs a FILE, there is none in the usual place (see"),
        (
            ("status", "--workspace", "/no/such"),
            "--workspace accepts an existing folder, /no/such does not exist",
        ),
    ],
)
def test_a_misuse_is_one_line_on_stderr_and_exit_2(arguments: tuple[str, ...], line: str, run: Run) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"memory-sidecar: {line}")
    assert result.stderr.count("\n") == 1


def test_config_check_judges_the_file_by_itself(run: Run, home: Path) -> None:
    file = home / "sidecar.toml"
    file.write_text("port = 1\n")
    result = run("config", "check", "sidecar.toml", MEMORY_SIDECAR_PORT="not a port")
    assert (result.exit_code, result.stdout) == (0, f"{file}: ok (main)\n")
    example = REPOSITORY / "config" / "memory-sidecar.example.toml"
    assert run("config", "check", str(example)).exit_code == 2
    (home / ".openclaw" / "workspace").mkdir(parents=True)
    assert run("config", "check", str(example)).exit_code == 0
    file.write_text("prot = 1\n")
    assert run("config", "check", "sidecar.toml").exit_code == 2


def test_config_check_looks_into_the_usual_place(run: Run, home: Path) -> None:
    assert run("init", *WS).exit_code == 0
    usual = home / ".config" / "memory-sidecar" / "config.toml"
    assert run("config", "check").stdout == f"{usual}: ok (main)\n"


@pytest.mark.parametrize(
    ("text", "mode", "secret"),
    [
        ('[agents.ops]\nworkspace = "gone"\n', None, ""),
        (TOKEN, None, ""),
        (TOKEN, 0o600, "short"),
        (TOKEN, 0o644, "s" * 32),
        (TOKEN, 0o600, "two words, which no header can carry"),
        (TOKEN + TOKEN.replace('"a"', '"b"'), 0o600, "s" * 32),
    ],
)
def test_config_check_refuses_with_the_words_of_serve(
    text: str, mode: int | None, secret: str, run: Run, home: Path
) -> None:
    (home / "sidecar.toml").write_text(
        text if "[agents" in text else f'[agents.main]\nworkspace="ws"\n{text}'
    )
    if mode is not None:
        (home / "secret").write_text(secret)
        (home / "secret").chmod(mode)
    checked = run("config", "check", "sidecar.toml")
    assert (checked.exit_code, checked.stdout) == (2, "")
    served = run(
        "serve", "--config", "sidecar.toml", "--port", "0", MEMORY_SIDECAR_EMBEDDINGS_PROVIDER="none"
    )
    assert served.exit_code == 2
    assert served.stderr.splitlines()[-1] == checked.stderr.strip()


def test_config_check_warns_of_variables_that_the_service_may_have(run: Run, home: Path) -> None:
    (home / "sidecar.toml").write_text(TOKEN.replace('file = "secret"', 'env = "GATEWAY_SECRET"'))
    result = run("config", "check", "sidecar.toml", *WS)
    assert (result.exit_code, result.stderr) == (
        0, "warning: tokens.a: environment variable GATEWAY_SECRET is not set\n",
    )  # fmt: skip
    short = run("config", "check", "sidecar.toml", *WS, GATEWAY_SECRET="short")
    assert short.exit_code == 2


def test_config_show_says_where_each_value_came_from(run: Run) -> None:
    result = run("config", "show", *WS, MEMORY_SIDECAR_PORT="99")
    line = next(line for line in result.stdout.splitlines() if line.startswith("port = "))
    assert " ".join(line.split()) == "port = 99 # MEMORY_SIDECAR_PORT: TCP port; 0 picks a free one"
    listed = json.loads(run("config", "show", "--json", *WS).stdout)
    assert {"key": "agents.main.serve_v1", "value": True, "origin": "default"}.items() <= next(
        row for row in listed if row["key"] == "agents.main.serve_v1"
    ).items()


def test_token_prints_the_generated_or_the_configured_secret_of_the_role(run: Run, home: Path) -> None:
    first = run("token", *WS)
    assert first.exit_code == 0
    assert first.stdout == run("token", "--role", "operator", *WS).stdout
    assert first.stdout != run("token", "--role", "host", *WS).stdout
    (home / "t.toml").write_text('[[tokens]]\nname = "g"\nrole = "host"\nsecret_env = "G"\n')
    given = ("--config", "t.toml", *WS)
    assert run("token", "--role", "host", *given, G="g" * 16).stdout == "g" * 16 + "\n"
    missing = run("token", *given, G="g" * 16)
    assert missing.stderr == "memory-sidecar: tokens: none of the configured ones has role operator\n"
    unset = run("token", "--role", "host", *given)
    assert unset.stderr == "memory-sidecar: tokens.g: environment variable G is not set\n"


def test_token_makes_no_state_for_a_workspace_that_is_not_there(run: Run, home: Path) -> None:
    result = run("token", "--workspace", "typo")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{home / 'typo'} does not exist" in result.stderr
    assert not (home / ".local").exists()


def test_token_refuses_a_state_directory_inside_the_workspace_and_writes_nothing(
    run: Run, home: Path
) -> None:
    result = run("token", *WS, "--state-dir", "ws/state")
    assert result.exit_code == 2
    assert "which is memory" in result.stderr
    assert not (home / "ws" / "state").exists()


def process(*arguments: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "sidecar", *arguments],
        stdout=stdout, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY, check=False, timeout=30,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "needs_workspace"),
    [
        (["--help"], False),
        (["--version"], False),
        (["search", "-h"], False),
        (["token"], True),
        (["config", "show"], True),
    ],
)
def test_light_commands_load_no_engine(arguments: list[str], needs_workspace: bool, home: Path) -> None:
    code = (
        "import sys\nfrom sidecar.cli import main\n"
        "try:\n    main()\nfinally:\n"
        "    heavy = {'tantivy', 'hnswlib', 'numpy', 'wordllama', 'aiohttp', 'rich'} & set(sys.modules)\n"
        "    assert not heavy, heavy\n"
    )
    named = ["--workspace", str(home / "ws")] if needs_workspace else []
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments, *named],
        capture_output=True, text=True, cwd=REPOSITORY, check=False, timeout=30,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_python_m_sidecar_is_the_same_program(home: Path) -> None:
    done = process("token", "--workspace", str(home / "ws"))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.strip()) >= 43
    wrong = process("serve", "--workspace", str(home / "no-such"), "--port", "0")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == (
        f"memory-sidecar: --workspace accepts an existing folder, {home / 'no-such'} does not exist\n"
    )


def test_a_closed_pipe_ends_it_without_a_traceback(home: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = process("config", "show", "--workspace", str(home / "ws"), stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_no_file_name_can_look_like_another_hit(capsys: pytest.CaptureFixture[str]) -> None:
    forged = "memory/fake\nMEMORY.md:1  9.999\n    \u202einjected\u2069.md"
    hit = {"reference": {"id": forged, "fragment": "L1-L1"}, "excerpt": "a\ttapir", "score": 0.5}
    print_hits({"hits": [hit]})
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "memory/fake\ufffdMEMORY.md:1  9.999\ufffd    \ufffdinjected\ufffd.md:1  0.500"
    assert rest == ["    a\ttapir", ""]
