"""A configuration that cannot be right is refused in one line: place, key, what it accepts (spec §2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.domain.errors import SettingsError
from sidecar.settings.load import Flags, load

BROKEN = Path(__file__).parent / "broken"
SECRET = "do-not-repeat-this-secret"
TOP = "host, port, allowed_hosts, allowed_origins, agents, embeddings, watch, tokens"
AGENT = (
    "workspace, default, provider, serve_v1, extra_paths, exclude, search_sources, sandboxed_access, sessions"
)
SESSIONS = "enabled, directory, visibility, include_reset_archives"
TOKEN = "name, role, secret_env, secret_file, scopes, agents"
ADDRESS = "an http:// or https:// address without user, query or fragment"

MESSAGES = {
    "agent-id-without-letters": (
        'agents accepts an agent id such as "main": letters, digits, "_" and "-", at most 64, not "!!!"'
    ),
    "agent-ids-alike": 'agents accepts each agent once, "Ops Team" and "ops-team" are both "ops-team"',
    "agent-without-workspace": "agents.ops.workspace is required and accepts an existing folder",
    "agents-not-tables": 'agents accepts tables [agents.<id>], not ["main"]',
    "embeddings-address-with-credentials": f"embeddings.base_url accepts {ADDRESS}",
    "embeddings-local-with-address": (
        'embeddings.base_url needs embeddings.provider = "openai-compatible", but it is "local"'
    ),
    "embeddings-none-with-failure-rule": (
        'embeddings.on_failure needs embeddings.provider = "local" or "openai-compatible", but it is "none"'
    ),
    "embeddings-provider-unknown": (
        'embeddings.provider accepts "local", "openai-compatible" or "none", not "openai"'
    ),
    "embeddings-remote-without-address": (
        'embeddings.base_url is required with provider = "openai-compatible"'
    ),
    "extra-path-with-unknown-key": (
        "agents.main.extra_paths accepts a list of paths or of tables "
        '{ path = "...", pattern = "..." }, not [a table]'
    ),
    "key-given-twice": "is not valid TOML: ",
    "not-toml": "is not valid TOML: ",
    "not-utf8": "accepts UTF-8 text only, byte 8 is not",
    "open-host-without-tokens": (
        'host accepts a loopback address unless [[tokens]] are configured, not "0.0.0.0"'
    ),
    "origin-with-path": (
        'allowed_origins accepts a list of origins such as "https://notes.example" '
        '(scheme and host, no path), not ["https://notes.example/app"]'
    ),
    "poll-too-fast": "watch.poll_seconds accepts a number from 0.1 to 3600, not 0",
    "port-as-boolean": "port accepts an integer from 0 to 65535, not true",
    "port-as-text": 'port accepts an integer from 0 to 65535, not "8737"',
    "port-out-of-range": "port accepts an integer from 0 to 65535, not 70000",
    "provider-misspelt": (
        'agents.main.provider accepts "workspace", "legacy", "powercontext" or an installed entry point, '
        'not "legcay", did you mean "legacy"?'
    ),
    "provider-table-of-another": (
        'agents.main.powercontext needs agents.main.provider = "powercontext", but it is "workspace"'
    ),
    "provider-without-files-excludes": (
        'agents.main.exclude needs provider = "workspace" or "legacy", not "powercontext"'
    ),
    "sandboxed-access-misspelt": 'agents.main.sandboxed_access accepts "deny" or "allow", not "denied"',
    "secret-as-variable-name": "tokens[0].secret_env accepts the name of an environment variable",
    "secret-in-the-file": (
        f'tokens[0].secret is not a known key, did you mean "secret_env"? accepted here: {TOKEN}'
    ),
    "sessions-searched-but-disabled": (
        'agents.main.search_sources accepts "sessions" only with [agents.main.sessions] enabled = true'
    ),
    "sources-empty": (
        'agents.main.search_sources accepts a list of "memory" and "sessions", at least one, not []'
    ),
    "sources-unknown": (
        'agents.main.search_sources accepts a list of "memory" and "sessions", at least one, not ["wiki"]'
    ),
    "token-for-no-agent": (
        "tokens[0].agents accepts a list of configured agent ids, or leave it out for all of them, not []"
    ),
    "token-for-unknown-agent": 'tokens[0].agents accepts configured agents (main), not "ops"',
    "token-names-alike": 'tokens[1].name accepts each name once, "gateway" is in use already',
    "token-with-two-secrets": "tokens[0] accepts exactly one of secret_env and secret_file, it has both",
    "token-without-role": 'tokens[0].role is required and accepts "operator" or "host"',
    "token-without-secret": "tokens[0] accepts exactly one of secret_env and secret_file, it has neither",
    "tokens-as-table": "tokens accepts an array of tables [[tokens]]",
    "two-defaults": (
        "agents.ops.default accepts true for one agent only, agents.main is the default already"
    ),
    "unknown-agent-key": (
        f'agents.main.exclud is not a known key, did you mean "exclude"? accepted here: {AGENT}'
    ),
    "unknown-key": f'prot is not a known key, did you mean "port"? accepted here: {TOP}',
    "unknown-session-key": (
        "agents.main.sessions.visible is not a known key, "
        f'did you mean "visibility"? accepted here: {SESSIONS}'
    ),
    "unknown-table": f'watching is not a known key, did you mean "watch"? accepted here: {TOP}',
    "visibility-all": 'agents.main.sessions.visibility accepts "self", "tree" or "agent", not "all"',
    "watch-not-a-table": 'watch accepts a table, not "auto"',
    "workspace-is-a-file": (
        "agents.main.workspace accepts an existing folder, "
        f"{BROKEN / 'workspace-is-a-file.toml'} is not a folder"
    ),
    "workspace-missing": (
        f"agents.main.workspace accepts an existing folder, {BROKEN / 'no-such-folder'} does not exist"
    ),
}


def refusal(flags: Flags, home: Path, **environ: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load(flags, {"HOME": str(home), **environ})
    assert "\n" not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize("fault", sorted(path.stem for path in BROKEN.glob("*.toml")))
def test_a_broken_file_is_refused_with_one_line_that_names_file_key_and_what_it_accepts(
    fault: str, tmp_path: Path
) -> None:
    file = BROKEN / f"{fault}.toml"
    (tmp_path / ".openclaw/workspace").mkdir(parents=True)
    message = refusal(Flags(config=str(file)), tmp_path)
    expected = f"{file}: {MESSAGES[fault]}"
    # What the parser of the standard library says about syntax differs between versions of Python.
    assert message == expected or (expected.endswith(": ") and message.startswith(expected))
    assert SECRET not in message


def test_every_sample_is_named_for_its_fault_and_every_message_has_a_sample() -> None:
    assert {path.stem for path in BROKEN.glob("*.toml")} == set(MESSAGES)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (Flags(port="http"), '--port accepts an integer from 0 to 65535, not "http"'),
        (Flags(host="two words"), '--host accepts a host name or IP address, not "two words"'),
        (Flags(host="::"), '--host accepts a loopback address unless [[tokens]] are configured, not "::"'),
        (Flags(agent="!!!"), '--agent accepts an agent id such as "main", not "!!!"'),
        (Flags(log_level="loud"), '--log-level accepts "debug", "info", "warning" or "error", not "loud"'),
        (Flags(workspace=""), '--workspace accepts a path, not ""'),
        (Flags(workspace="/no/such"), "--workspace accepts an existing folder, /no/such does not exist"),
        (
            Flags(config="/no/such.toml"),
            "--config accepts a readable TOML file, /no/such.toml: No such file or directory",
        ),
    ],
)
def test_a_wrong_flag_is_named(flags: Flags, message: str, tmp_path: Path) -> None:
    (tmp_path / ".openclaw/workspace").mkdir(parents=True)
    assert refusal(flags, tmp_path) == message


def test_a_wrong_environment_variable_is_named_and_a_secret_in_it_is_not(tmp_path: Path) -> None:
    (tmp_path / ".openclaw/workspace").mkdir(parents=True)
    assert refusal(Flags(), tmp_path, MEMORY_SIDECAR_WATCH_MODE="on") == (
        'MEMORY_SIDECAR_WATCH_MODE accepts "auto", "events" or "polling", not "on"'
    )
    assert refusal(Flags(), tmp_path, MEMORY_SIDECAR_EMBEDDINGS_API_KEY_ENV=SECRET) == (
        "MEMORY_SIDECAR_EMBEDDINGS_API_KEY_ENV accepts the name of an environment variable"
    )


def test_without_any_workspace_the_line_says_what_to_pass(tmp_path: Path) -> None:
    assert refusal(Flags(), tmp_path) == (
        "no workspace: ~/.openclaw/workspace does not exist, pass --workspace DIR or --config FILE"
    )


@pytest.mark.parametrize("by", ["--workspace", "MEMORY_SIDECAR_WORKSPACE"])
def test_a_workspace_beside_a_file_that_configures_agents_is_refused(by: str, tmp_path: Path) -> None:
    file = tmp_path / "sidecar.toml"
    file.write_text('[agents.main]\nworkspace = "."\n')
    flag = str(tmp_path) if by.startswith("--") else None
    environ = {} if flag else {by: str(tmp_path)}
    message = refusal(Flags(config=str(file), workspace=flag), tmp_path, **environ)
    assert message == (f"{by} is not accepted together with {file}, which configures agents: use one of them")


def test_an_agent_that_is_not_configured_is_refused_with_those_that_are(tmp_path: Path) -> None:
    file = tmp_path / "sidecar.toml"
    file.write_text('[agents.main]\nworkspace = "."\n[agents.ops]\nworkspace = "."\n')
    message = refusal(Flags(config=str(file), agent="Finance"), tmp_path)
    assert message == '--agent accepts a configured agent (main, ops), not "finance"'
