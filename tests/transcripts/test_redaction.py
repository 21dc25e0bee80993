"""Secrets never reach the index (U§7): what is masked, what is left alone, and at what cost."""

from __future__ import annotations

import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.text.redaction import MASK, redact

TOKEN = "Zx9" * 14


@pytest.mark.parametrize(
    "secret",
    [
        f"sk-{TOKEN}",
        f"sk-ant-api03-{TOKEN}",
        f"sk_live_{TOKEN}",
        f"ghp_{TOKEN}",
        f"github_pat_{TOKEN}",
        f"glpat-{TOKEN}",
        f"xoxb-123456-{TOKEN}",
        "AKIAIOSFODNN7EXAMPLE",
        f"AIza{TOKEN[:35]}",
        f"hf_{TOKEN}",
        f"npm_{TOKEN}",
        f"pypi-{TOKEN}",
        f"123456789:{TOKEN[:35]}",
        f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{TOKEN}",
        f"SG.{TOKEN[:22]}.{TOKEN}",
    ],
)
def test_tokens_that_their_issuer_marked_are_masked_wherever_they_stand(secret: str) -> None:
    for around in ("{}", "use {} please", '"{}"', "key={}", "({}),", "see https://h.example/?k={}&x=1"):
        text = around.format(secret)
        assert secret[4:] not in redact(text), text
        assert MASK in redact(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://me:hunter2@host.example/x", f"https://me:{MASK}@host.example/x"),
        ("postgres://u:p@ss:w@db/x", f"postgres://u:{MASK}@db/x"),
        ("Authorization: Bearer abc", f"Authorization: Bearer {MASK}"),
        ("Authorization: Basic dXNlcjpwYXNz", f"Authorization: Basic {MASK}"),
        ("curl -H 'authorization: Bearer abcdef123456'", f"curl -H 'authorization: Bearer {MASK}'"),
        ("Bearer abcdef123456789", f"Bearer {MASK}"),
        ("MY_API_KEY=abcd1234", f"MY_API_KEY={MASK}"),
        ('{"password": "a b c"}', f'{{"password": {MASK}}}'),
        ("password: hunter2", f"password: {MASK}"),
        ("db.secret := 's3cr3t'", f"db.secret := {MASK}"),
        ("dbPassword=hunter2", f"dbPassword={MASK}"),
        ("run --token abcd1234 now", f"run --token {MASK} now"),
        ("a -----BEGIN RSA PRIVATE KEY----- MIIE -----END RSA PRIVATE KEY----- b", f"a {MASK} b"),
        (f"MY_API_KEY=sk-{TOKEN}", f"MY_API_KEY={MASK}"),
        (
            f"[token: ghp_{TOKEN}] (password=hunter2) {{secret: s3cr3t}}",
            f"[token: {MASK}] (password={MASK}) {{secret: {MASK}}}",
        ),
        (f"token=sk-{TOKEN}$more end", f"token={MASK} end"),
        ("password=hun)ter]2", f"password={MASK}"),
        ("a -----BEGIN OPENSSH PRIVATE KEY----- never ends", f"a {MASK}"),
    ],
)
def test_secrets_with_a_name_are_masked_once_and_what_stands_around_them_stays(
    text: str, expected: str
) -> None:
    assert redact(text) == expected
    assert redact(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "The bearer of good news arrived.",
        "monkey: banana",
        "Keyboard: mechanical, turkey = bird",
        "the token ring network",
        "password reset is in the settings",
        "at 12:30:45 on 2026-01-02T03:04:05",
        "see https://example.org/path:80/x and mail me@example.org",
        "commit 3f2504e04f8911d39a0c0305e82c3301",
        "id 123e4567-e89b-12d3-a456-426614174000",
    ],
)
def test_ordinary_text_is_left_as_it_is(text: str) -> None:
    assert redact(text) == text


@given(st.text(alphabet=string.ascii_letters + string.digits + " :=/@.-_\"'", max_size=400))
def test_masking_twice_changes_nothing_more_of_the_marks(text: str) -> None:
    once = redact(f"{text} sk-{TOKEN} {text}")
    assert f"sk-{TOKEN}" not in once


HOSTILE = [
    "a_", "://", "://a:", "://:@", "bearer ", "bearer a", "eyJ", "eyJ.", "token ", "token:", "api_key",
    "secret:   ",
    "password=", "sk-", "--a-", "--token ", "authorization ", "authorization: bearer ", "1", "a.b_c-", "1:",
    "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", '"password":"', "ghp_", "key key_", "Secret", "aToken",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_the_cost_grows_with_the_length_of_the_text_and_not_faster(piece: str) -> None:
    """Sixteen times the text may cost about sixteen times as much; were it squared, 256 times."""
    short, long = piece * (4_000 // len(piece)), piece * (64_000 // len(piece))
    assert _seconds(long) < 100 * max(_seconds(short), 1e-4)


def _seconds(text: str) -> float:
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        redact(text)
        best = min(best, time.process_time() - began)
    return best
