"""What is in force: defaults, then the file, then the environment, then flags (spec §2)."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.domain.errors import SettingsError
from sidecar.settings import kinds
from sidecar.settings.keys import ENVIRONMENT, FIELDS
from sidecar.settings.load import Flags, Loaded, load
from sidecar.settings.model import ExtraPathSettings
from sidecar.settings.parse import parse
from sidecar.settings.show import MASK, rows

EXAMPLE = Path(__file__).parents[2] / "config" / "memory-sidecar.example.toml"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".openclaw/workspace").mkdir(parents=True)
    return tmp_path


def loaded(home: Path, text: str | None = None, *, flags: Flags | None = None, **environ: str) -> Loaded:
    flags = flags or Flags()
    if text is not None:
        file = home / "sidecar.toml"
        file.write_text(text)
        flags = msgspec.structs.replace(flags, config=str(file))
    return load(flags, {"HOME": str(home), **environ})


def test_with_nothing_given_the_default_workspace_is_served_on_loopback_for_agent_main(home: Path) -> None:
    found = loaded(home)
    agent = found.settings.agents["main"]
    assert (found.settings.host, found.settings.port, found.settings.default_agent) == (
        "127.0.0.1",
        8737,
        "main",
    )
    assert agent.workspace == home / ".openclaw/workspace"
    assert agent.sessions.directory == home / ".openclaw/agents/main/sessions"
    assert agent.provider_id == "memory-sidecar"
    assert set(found.origins.values()) == {"default"}


def test_flags_override_environment_overrides_file_overrides_default(home: Path) -> None:
    text = "port = 1111\n[watch]\npoll_seconds = 5\n"
    assert loaded(home, text).settings.port == 1111
    env = {"MEMORY_SIDECAR_PORT": "2222", "MEMORY_SIDECAR_WATCH_MODE": "polling"}
    found = loaded(home, text, flags=None, **env)
    assert (found.settings.port, found.settings.watch.mode, found.settings.watch.poll_seconds) == (
        2222,
        "polling",
        5,
    )
    over = loaded(home, text, flags=Flags(port="3333"), **env)
    assert over.settings.port == 3333
    assert over.origins["port"] == "--port"
    assert over.origins["watch.mode"] == "MEMORY_SIDECAR_WATCH_MODE"
    assert over.origins["watch.poll_seconds"] == str(home / "sidecar.toml")
    assert over.origins["host"] == "default"


def test_every_variable_of_the_documented_list_but_the_tokens_has_an_effect(home: Path) -> None:
    (home / "other").mkdir()
    file = home / "other.toml"
    file.write_text("port = 4\n")
    samples = {
        "CONFIG": str(file), "WORKSPACE": str(home / "other"), "AGENT": "ops",
        "STATE_DIR": str(home / "state"),
        "LOG_LEVEL": "debug", "HOST": "localhost", "PORT": "5", "ALLOWED_HOSTS": "a.example, b.example",
        "ALLOWED_ORIGINS": "https://a.example", "WATCH_MODE": "events", "WATCH_POLL_SECONDS": "1.5",
        "EMBEDDINGS_PROVIDER": "openai-compatible", "EMBEDDINGS_BASE_URL": "http://127.0.0.1:1/v1/",
        "EMBEDDINGS_MODEL": "m", "EMBEDDINGS_API_KEY_ENV": "KEY", "EMBEDDINGS_DIMENSIONS": "64",
        "EMBEDDINGS_QUERY_INPUT_TYPE": "q", "EMBEDDINGS_DOCUMENT_INPUT_TYPE": "d",
        "EMBEDDINGS_TIMEOUT_SECONDS": "3", "EMBEDDINGS_ON_FAILURE": "error", "OPERATOR_TOKEN": "o",
        "HOST_TOKEN": "h",
    }  # fmt: skip
    assert {f"MEMORY_SIDECAR_{name}" for name in samples} == set(ENVIRONMENT)
    found = loaded(
        home, None, flags=None, **{f"MEMORY_SIDECAR_{name}": value for name, value in samples.items()}
    )
    shown = {row.key: row.value for row in rows(found, {})}
    for key in FIELDS:
        if not key.startswith(("agents.", "tokens.")):
            assert found.origins[key] == "MEMORY_SIDECAR_" + key.replace(".", "_").upper()
    assert shown["allowed_hosts"] == ["a.example", "b.example"]
    assert shown["embeddings.base_url"] == "http://127.0.0.1:1/v1"
    assert shown["state_dir"] == str(home / "state")
    assert (shown["config_file"], found.origins["config_file"]) == (str(file), "MEMORY_SIDECAR_CONFIG")
    assert found.settings.agents["ops"].workspace == home / "other"
    assert (found.agent, found.log_level, found.config_file) == ("ops", "debug", file)


def test_an_empty_variable_is_as_good_as_none_and_an_injected_service_address_is_not_ours(home: Path) -> None:
    found = loaded(
        home,
        MEMORY_SIDECAR_HOST=" ",
        MEMORY_SIDECAR_PORT="tcp://10.0.0.7:8737",
        MEMORY_SIDECAR_SERVICE_HOST="10.0.0.7",
        MEMORY_SIDECAR_PORT_8737_TCP_ADDR="10.0.0.7",
    )
    assert (found.settings.host, found.settings.port, found.warnings) == ("127.0.0.1", 8737, ())


def test_a_misspelt_variable_is_warned_about_with_the_one_that_was_meant(home: Path) -> None:
    assert loaded(home, MEMORY_SIDECAR_WORKSPCE="x").warnings == (
        "MEMORY_SIDECAR_WORKSPCE is not used, did you mean MEMORY_SIDECAR_WORKSPACE?",
    )


def test_paths_of_the_file_start_at_its_folder_and_paths_of_flags_where_the_user_is(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "conf/ws").mkdir(parents=True)
    (home / "here/ws").mkdir(parents=True)
    file = home / "conf/sidecar.toml"
    file.write_text(
        '[agents.main]\nworkspace = "ws"\n[[tokens]]\nname = "t"\nrole = "host"\nsecret_file = "t.secret"\n'
    )
    monkeypatch.chdir(home / "here")
    found = loaded(home, flags=Flags(config="../conf/sidecar.toml")).settings
    assert found.agents["main"].workspace is not None
    assert found.agents["main"].workspace.samefile(home / "conf/ws")
    assert found.tokens[0].secret_file is not None
    assert found.tokens[0].secret_file.resolve() == home / "conf/t.secret"
    assert loaded(home, flags=Flags(workspace="ws")).settings.agents["main"].workspace == home / "here/ws"


def test_agent_ids_are_normalised_everywhere(home: Path) -> None:
    found = loaded(
        home,
        '[agents."Ops Team"]\nworkspace = "."\n[agents.main]\nworkspace = "."\n'
        '[[tokens]]\nname = "t"\nrole = "host"\nsecret_env = "T"\nagents = ["Ops Team"]\n',
        flags=Flags(agent="OPS team"),
    )
    assert list(found.settings.agents) == ["ops-team", "main"]
    assert found.settings.tokens[0].agents == ("ops-team",)
    assert (found.agent, found.settings.default_agent) == ("ops-team", "ops-team")


@pytest.mark.parametrize(
    ("defaults", "expected"),
    [((), None), (("main",), "main"), (("ops",), "ops")],
)
def test_of_several_agents_only_a_marked_one_is_the_default(
    defaults: tuple[str, ...], expected: str | None, home: Path
) -> None:
    text = "".join(
        f'[agents.{name}]\nworkspace = "."\ndefault = {str(name in defaults).lower()}\n'
        for name in ("main", "ops")
    )
    assert loaded(home, text).settings.default_agent == expected


def test_token_variables_configure_tokens_where_the_file_has_none(home: Path) -> None:
    found = loaded(home, "host = '0.0.0.0'\n", MEMORY_SIDECAR_OPERATOR_TOKEN="x" * 20)
    assert [(token.name, token.role, token.secret_env) for token in found.settings.tokens] == [
        ("operator", "operator", "MEMORY_SIDECAR_OPERATOR_TOKEN")
    ]
    listed = loaded(
        home,
        '[[tokens]]\nname = "g"\nrole = "host"\nsecret_env = "G"\n',
        MEMORY_SIDECAR_OPERATOR_TOKEN="x" * 20,
    )
    assert [token.name for token in listed.settings.tokens] == ["g"]
    assert listed.warnings == (
        "MEMORY_SIDECAR_OPERATOR_TOKEN is not used: "
        f"no entry of [[tokens]] in {home / 'sidecar.toml'} names it",
    )


def test_extra_paths_are_strings_or_tables_with_a_pattern(home: Path) -> None:
    text = '[agents.main]\nworkspace = "."\nextra_paths = ["../a", { path = "~/b", pattern = "**/*.md" }]\n'
    assert loaded(home, text).settings.agents["main"].extra_paths == (
        ExtraPathSettings("../a"),
        ExtraPathSettings("~/b", "**/*.md"),
    )


def test_another_providers_table_is_kept_as_it_is_and_needs_no_workspace(home: Path) -> None:
    table = '[agents.main.powercontext]\nendpoint = "http://x"\nn = {a = 1}\n'
    text = f'[agents.main]\nprovider = "powercontext"\n{table}'
    agent = loaded(home, text).settings.agents["main"]
    assert (agent.workspace, agent.provider_id, agent.reads_files) == (None, "powercontext", False)
    assert agent.provider_options == {"endpoint": "http://x", "n": {"a": 1}}


def test_config_show_holds_every_key_with_its_purpose_and_no_secret(home: Path) -> None:
    text = (
        '[agents.main]\nprovider = "powercontext"\n[agents.main.powercontext]\ntoken = "literal-secret"\n'
        'token_env = "PC_TOKEN"\nnested = [{ api_key = "literal-secret" }]\n'
        '[[tokens]]\nname = "g"\nrole = "host"\nsecret_env = "G"\n'
    )
    found = rows(loaded(home, text), {"G": "the-secret-of-this-token"})
    assert "literal-secret" not in str(found)
    assert "the-secret" not in str(found)
    by_key = {row.key: row for row in found}
    assert by_key["tokens.g.secret_env"].value == "G (set)"
    assert by_key["agents.main.powercontext"].value == {
        "token": MASK, "token_env": "PC_TOKEN", "nested": [{"api_key": MASK}],
    }  # fmt: skip
    shown = {re.sub(r"^(agents|tokens)\.(main|g)\.", r"\1.", key) for key in by_key}
    assert {key.replace("<id>.", "") for key in FIELDS} <= shown
    assert all(row.purpose and row.origin for row in found)


def test_the_example_file_holds_every_key_with_the_defaults_in_force(home: Path) -> None:
    text = EXAMPLE.read_text()
    for key in FIELDS:
        assert re.search(rf"\b{key.rpartition('.')[2]} = ", text), key
    example, plain = loaded(home, text), loaded(home)
    assert msgspec.structs.replace(
        example.settings, state_dir=plain.settings.state_dir, agents={}
    ) == msgspec.structs.replace(plain.settings, agents={})
    given = msgspec.structs.replace(example.settings.agents["main"], default=False)
    assert given == plain.settings.agents["main"]


def test_the_example_is_still_sound_when_everything_in_it_is_switched_on(home: Path) -> None:
    lines = [re.sub(r"^# (?=\[|[a-z_]+ = )", "", line) for line in EXAMPLE.read_text().splitlines()]
    text = "\n".join(lines).replace('provider = "local"', 'provider = "openai-compatible"')
    text = text.replace('provider = "workspace"', 'provider = "powercontext"')
    found = loaded(home, text).settings
    assert found.tokens[0].secret_env == "MEMORY_SIDECAR_HOST_TOKEN"
    assert found.embeddings.dimensions == 256
    assert found.agents["main"].provider_options == tomllib.loads(text)["agents"]["main"]["powercontext"]


def test_documented_defaults_are_the_ones_in_force(home: Path) -> None:
    by_key = {row.key: row.value for row in rows(loaded(home), {})}
    for key, field in FIELDS.items():
        if (
            field.default is None
            or "<id>" in field.default
            or key.startswith("tokens.")
            or "workspace" in key
        ):
            continue
        expected = tomllib.loads(f"x = {field.default}")["x"]
        assert by_key[key.replace("<id>", "main")] == expected, key


@given(st.binary(max_size=200))
@settings(max_examples=60)
def test_whatever_a_file_holds_it_is_parsed_or_refused_in_one_line_with_its_name(content: bytes) -> None:
    said = ""
    try:
        parse(content, "f.toml")
    except SettingsError as error:
        said = error.message
    assert not said or said.startswith("f.toml: ")
    assert "\n" not in said


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.sampled_from(sorted(FIELDS)), VALUES)
@settings(max_examples=150)
def test_every_kind_takes_or_refuses_any_value_without_falling_over(key: str, value: object) -> None:
    kind = FIELDS[key].kind
    assert kind.read(value) is kinds.REFUSED or value is not None
    assert "\n" not in kinds.shown(value)


@given(st.sampled_from(sorted(FIELDS)), st.text(max_size=30))
@settings(max_examples=100)
def test_every_kind_takes_or_refuses_any_text_of_a_flag_or_variable(key: str, text: str) -> None:
    kind = FIELDS[key].kind
    value = kind.from_text(text)
    assert value is kinds.REFUSED or isinstance(value, str | int | float | bool | tuple)
