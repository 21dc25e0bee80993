"""Tokens: where secrets come from, which are refused, whom they stand for, rotation (spec §3)."""

from __future__ import annotations

import logging
import os
import shutil
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.domain.authority import Principal
from sidecar.domain.errors import SettingsError
from sidecar.settings.load import Flags, load
from sidecar.settings.model import Settings
from sidecar.settings.tokens import TokenStore, client_secret

LONG = "abcdefghijklmnop"


def configured(tmp_path: Path, tokens: str = "") -> Settings:
    (tmp_path / "state").mkdir(mode=0o700, exist_ok=True)
    file = tmp_path / "sidecar.toml"
    file.write_text(f'[agents.main]\nworkspace = "."\n[agents.ops]\nworkspace = "."\n{tokens}')
    flags = Flags(config=str(file), state_dir=str(tmp_path / "state"))
    return load(flags, {"HOME": str(tmp_path)}).settings


def token(name: str, source: str, *, role: str = "host", more: str = "") -> str:
    return f'[[tokens]]\nname = "{name}"\nrole = "{role}"\n{source}\n{more}\n'


def store_of(found: Settings, **environ: str) -> TokenStore:
    return TokenStore.open(found, found.state_dir, environ)


def secret_file(tmp_path: Path, content: str = LONG, *, mode: int = 0o600) -> Path:
    path = tmp_path / "secret"
    path.write_text(content)
    path.chmod(mode)
    return path


def refusal(found: Settings, **environ: str) -> str:
    with pytest.raises(SettingsError) as caught:
        store_of(found, **environ)
    return caught.value.message


def test_without_tokens_the_first_start_makes_one_of_each_role_that_later_starts_keep(tmp_path: Path) -> None:
    found = configured(tmp_path)
    store_of(found)
    secrets = {role: (found.state_dir / f"{role}.token").read_text().strip() for role in ("operator", "host")}
    assert all(len(secret) >= 43 for secret in secrets.values())
    assert secrets["operator"] != secrets["host"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in found.state_dir.iterdir()} == {0o600}
    again = store_of(found)
    for role, secret in secrets.items():
        principal = again.match(secret)
        assert principal is not None
        assert (principal.name, principal.role, principal.agents) == (role, role, None)
        assert principal.scopes == ("operator.read",)


def test_a_configured_token_stands_for_its_role_scopes_and_agents_and_nothing_is_generated(
    tmp_path: Path,
) -> None:
    more = 'scopes = ["operator.admin"]\nagents = ["OPS"]'
    found = configured(tmp_path, token("gate", 'secret_env = "GATE"', more=more))
    store = store_of(found, GATE=f" {LONG}\n")
    assert store.match(LONG) == Principal(
        name="gate", role="host", scopes=("operator.admin",), agents=("ops",)
    )
    assert list(found.state_dir.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("fifteen-bytes-x", "accepts at least 16 bytes, the secret is shorter"),
        ("", "accepts at least 16 bytes, the secret is shorter"),
        ("two words in a secret", "accepts printable ASCII without spaces, the secret has others"),
        ("schlüssel-schlüssel", "accepts printable ASCII without spaces, the secret has others"),
        ("x" * 5000, "accepts at most 4096 bytes"),
    ],
)
def test_an_unusable_secret_is_refused_without_being_repeated(
    content: str, reason: str, tmp_path: Path
) -> None:
    path = secret_file(tmp_path, content)
    found = configured(tmp_path, token("gate", f'secret_file = "{path.name}"'))
    message = refusal(found)
    assert message == f"tokens.gate: {path} {reason}"
    assert not content or content not in message


def test_an_unset_variable_is_refused_by_name(tmp_path: Path) -> None:
    found = configured(tmp_path, token("gate", 'secret_env = "GATE"'))
    for environ in ({}, {"GATE": "  "}):
        assert refusal(found, **environ) == "tokens.gate: environment variable GATE is not set"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666, 0o610])
def test_a_secret_file_that_others_may_read_is_refused(mode: int, tmp_path: Path) -> None:
    path = secret_file(tmp_path, mode=mode)
    found = configured(tmp_path, token("gate", 'secret_file = "secret"'))
    assert refusal(found) == f"tokens.gate: {path} is readable by others (mode {mode:04o}): chmod 600 it"


def test_a_secret_file_that_is_absent_a_folder_or_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    found = configured(tmp_path, token("gate", 'secret_file = "secret"'))
    path = tmp_path / "secret"
    assert refusal(found) == f"tokens.gate: {path} cannot be read: No such file or directory"
    os.mkfifo(path, 0o600)
    assert refusal(found) == f"tokens.gate: {path} is not a regular file"
    path.unlink()
    path.mkdir(mode=0o700)
    assert refusal(found) == f"tokens.gate: {path} is not a regular file"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to be root to own files of two users")
def test_a_secret_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = secret_file(tmp_path)
    shutil.chown(path, 65534, 65534)
    found = configured(tmp_path, token("gate", 'secret_file = "secret"'))
    assert refusal(found) == f"tokens.gate: {path} belongs to another user"


def test_one_secret_for_two_tokens_is_refused(tmp_path: Path) -> None:
    found = configured(tmp_path, token("a", 'secret_env = "A"') + token("b", 'secret_env = "B"'))
    assert (
        refusal(found, A=LONG, B=LONG) == "tokens.b accepts a secret of its own, it has the one of tokens.a"
    )


def test_rotation_names_the_tokens_whose_old_secret_no_longer_stands(tmp_path: Path) -> None:
    path = secret_file(tmp_path)
    found = configured(tmp_path, token("a", 'secret_file = "secret"') + token("b", 'secret_env = "B"'))
    store = store_of(found, B="b" * 20)
    assert store.reload() == ()
    path.write_text("another-long-secret")
    assert store.match(LONG) is not None
    assert store.reload() == ("a",)
    assert store.match(LONG) is None
    changed = store.match("another-long-secret")
    assert changed is not None
    assert changed.name == "a"
    assert store.match("b" * 20) is not None
    assert store.reload() == ()


@pytest.mark.parametrize("fault", ["deleted", "short", "open to others", "same as another"])
def test_a_secret_that_became_unusable_admits_nobody_until_it_is_mended(
    fault: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = secret_file(tmp_path)
    found = configured(tmp_path, token("a", 'secret_file = "secret"') + token("b", 'secret_env = "B"'))
    store = store_of(found, B="b" * 20)
    if fault == "deleted":
        path.unlink()
    elif fault == "open to others":
        path.chmod(0o644)
    else:
        path.write_text("short" if fault == "short" else "b" * 20)
    with caplog.at_level(logging.WARNING):
        assert "a" in store.reload()
    assert store.match(LONG) is None
    assert (store.match("b" * 20) is None) is (fault == "same as another")
    assert "token is unusable" in caplog.text
    assert LONG not in caplog.text
    secret_file(tmp_path)
    store.reload()
    assert store.match(LONG) is not None


def test_deleting_a_generated_token_rotates_it(tmp_path: Path) -> None:
    found = configured(tmp_path)
    store = store_of(found)
    path = found.state_dir / "operator.token"
    old = path.read_text().strip()
    path.unlink()
    assert store.reload() == ("operator",)
    assert store.match(old) is None
    assert store.match(path.read_text().strip()) is not None


def test_no_secret_and_no_digest_of_one_is_in_a_repr(tmp_path: Path) -> None:
    found = configured(tmp_path, token("gate", 'secret_env = "GATE"'))
    store = store_of(found, GATE=LONG)
    text = f"{store!r} {store._known!r} {store.principals!r} {found!r}"
    assert LONG not in text
    assert store._known[0].digest.hex() not in text
    assert repr(store._known[0].digest) not in text


@given(presented=st.text(max_size=40))
@settings(max_examples=100)
def test_nothing_but_the_secret_itself_matches(
    presented: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.getbasetemp() / "match"
    place.mkdir(exist_ok=True)
    store = store_of(configured(place, token("gate", 'secret_env = "GATE"')), GATE=LONG)
    assert (store.match(presented) is not None) is (presented == LONG)
    assert store.match(LONG + presented) is None or presented == ""
    assert store.match("\udcff" + presented) is None


def test_our_own_client_takes_an_operator_token_that_sees_the_agent(tmp_path: Path) -> None:
    found = configured(
        tmp_path,
        token("gate", 'secret_env = "GATE"')
        + token("none", 'secret_env = "NONE"', role="operator", more="scopes = []")
        + token("main", 'secret_env = "MAIN"', role="operator", more='agents = ["main"]'),
    )
    environ = {"GATE": "g" * 16, "NONE": "n" * 16, "MAIN": "m" * 16}
    assert client_secret(found, environ) == "m" * 16
    assert client_secret(found, environ, agent="ops") == "g" * 16
    assert client_secret(found, environ, role="host") == "g" * 16
    del environ["MAIN"]
    assert client_secret(found, environ, agent="main") == "g" * 16
    with pytest.raises(SettingsError, match="environment variable MAIN is not set"):
        client_secret(found, {})


def test_a_role_without_a_token_is_said(tmp_path: Path) -> None:
    found = configured(tmp_path, token("gate", 'secret_env = "GATE"'))
    with pytest.raises(SettingsError, match="tokens: none of the configured ones has role operator"):
        client_secret(found, {"GATE": LONG}, role="operator")
