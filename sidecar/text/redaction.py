"""Secrets taken out of text before it is indexed or shown (U§7). Linear: every repetition is bounded.

Covered, each in the forms in which they are pasted into conversations:

- private key blocks (PEM, also in one line; one that never ends runs to the end)
- tokens that their issuer marked with a prefix (OpenAI, Anthropic, GitHub, GitLab, Slack, AWS, Google,
  Stripe, Hugging Face, npm, PyPI, SendGrid, Telegram bots and others), and JSON web tokens
- `Authorization:` headers, and `Bearer` with anything that looks like a token
- passwords in addresses (`scheme://user:password@host`)
- values given to a name that says secret: `API_KEY=...`, `"password": "..."`, `--token ...`

Not covered: a secret that stands there without any mark, such as a bare password in a sentence.
"""

from __future__ import annotations

import re

MASK = "[redacted]"

_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_EDGE = r"(?<![A-Za-z0-9_-])"
_ISSUED = re.compile(
    _EDGE + r"(?:(?:sk|rk|pk)-[A-Za-z0-9_-]{16,4096}"
    r"|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,256}|whsec_[A-Za-z0-9+/=]{16,256}"
    r"|gh[pousr]_[A-Za-z0-9]{20,512}|github_pat_[A-Za-z0-9_]{20,512}|gl(?:pat|ptt|dt|rt|soat)-[A-Za-z0-9_.-]{16,512}"
    r"|xox[abceoprs]-[A-Za-z0-9-]{10,512}|xapp-[A-Za-z0-9-]{10,512}"
    r"|(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![0-9A-Za-z])"
    r"|AIza[0-9A-Za-z_-]{30,128}|ya29\.[0-9A-Za-z_.-]{20,2048}|GOCSPX-[0-9A-Za-z_-]{20,128}"
    r"|hf_[A-Za-z0-9]{20,128}|npm_[A-Za-z0-9]{30,128}|pypi-[A-Za-z0-9_-]{20,1024}"
    r"|SG\.[A-Za-z0-9_-]{16,128}\.[A-Za-z0-9_-]{16,128}|key-[0-9a-f]{32}(?![0-9A-Za-z])"
    r"|gsk_[A-Za-z0-9]{20,128}|pplx-[A-Za-z0-9]{20,128}|xai-[A-Za-z0-9]{20,256}|r8_[A-Za-z0-9]{20,128}"
    r"|tvly-[A-Za-z0-9-]{20,128}|fc-[0-9a-f]{32}(?![0-9A-Za-z])|do[opr]_v1_[0-9a-f]{40,128}"
    r"|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|lin_api_[A-Za-z0-9]{20,128}|ntn_[A-Za-z0-9]{20,128}"
    r"|secret_[A-Za-z0-9]{32,128}|dapi[0-9a-f]{32}|AGE-SECRET-KEY-1[0-9A-Z]{50,64}"
    r"|\d{8,10}:[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"
    r"|eyJ[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{8,4096})"
)
_HEADER = re.compile(
    r"\b((?:proxy-)?authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:(?:bearer|basic|token|digest)\s{1,3})?+)"
    r"[^\s\"',]{3,8192}",
    re.IGNORECASE,
)
_BEARER = re.compile(
    r"\b(bearer\s{1,3})(?=[A-Za-z._~+/=-]{0,128}\d)[A-Za-z0-9._~+/=-]{12,8192}", re.IGNORECASE
)
_IN_ADDRESS = re.compile(r"(://[^\s/:@]{0,256}:)[^\s/]{1,256}@")
_NAMED = re.compile(
    r"((?:(?<![A-Za-z0-9])(?:(?:api|access|private|secret|auth|client|session|refresh|signing)[_ -]?"
    r"(?:key(?:[_ -]?id)?|token|secret)|secret|token|password|passwd|passphrase|pwd)"
    r"|(?-i:(?<=[a-z0-9])(?:Password|Passphrase|Secret|Token|ApiKey|AccessKey|PrivateKey)))"
    r"[\"']?\s{0,3}(?::=|=>|[:=])\s{0,3})"
    # What was masked before is masked with what follows it; a bracket that closes around a value stays.
    r"(?:\"[^\"]{1,1024}\"|'[^']{1,1024}'|\[redacted\](?:[^\s\"',;&]{0,1023}[^\s\"',;&)\]}])?"
    r"|[^\s\"',;&]{3,1023}[^\s\"',;&)\]}])",
    re.IGNORECASE,
)
_FLAG = re.compile(
    r"(--(?:[a-z]{1,16}-){0,3}(?:key|token|secret|password|passwd|passphrase)(?:=|\s{1,3}))(?![\s-])\S{4,1024}",
    re.IGNORECASE,
)
# What may hold an issued token: ordinary words are shorter, and looked at no further.
_LONG = re.compile(r"(?<![A-Za-z0-9_.:+/=-])[A-Za-z0-9_.:+/=-]{16,}")
_NAMES = ("key", "secret", "token", "pass", "pwd")


def redact(text: str) -> str:
    """The text with every known form of a secret replaced by `[redacted]`."""
    if "PRIVATE KEY" in text:
        text = _without_keys(text)
    text = _LONG.sub(_without_issued, text)
    lower = text.lower()
    if "://" in text and "@" in text:
        text = _IN_ADDRESS.sub(rf"\1{MASK}@", text)
    if "authorization" in lower:
        text = _HEADER.sub(rf"\1{MASK}", text)
    if "bearer" in lower:
        text = _BEARER.sub(rf"\1{MASK}", text)
    if any(name in lower for name in _NAMES):
        if "--" in text:
            text = _FLAG.sub(rf"\1{MASK}", text)
        if ":" in text or "=" in text:
            text = _NAMED.sub(rf"\1{MASK}", text)
    return text


def _without_issued(run: re.Match[str]) -> str:
    return _ISSUED.sub(MASK, run[0])


def _without_keys(text: str) -> str:
    kept = []
    at = 0
    while (begin := _KEY_BEGIN.search(text, at)) is not None:
        kept.append(text[at : begin.start()] + MASK)
        end = _KEY_END.search(text, begin.end())
        at = len(text) if end is None else end.end()
    return "".join(kept) + text[at:]
