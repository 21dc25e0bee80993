"""The annotation comments of curated memory, exactly as U§10 reads them.

    - Deploys freeze on Fridays <!-- trigger: deploy, release --> <!-- importance: 8 -->
    - Uses tabs <!-- project: github.com/acme/app -->

A comment is `<!--`, a keyword, `:`, and a value up to the first `-->`. There is no escape syntax. All
scanning here is linear, whatever the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sidecar.domain.corpus import NO_ANNOTATIONS, Annotations

_OPENING = re.compile(r"<!--\s*+(trigger|importance|project)\s*+:", re.IGNORECASE)
# Looked for by itself, so that an unclosed comment of another kind never swallows a project mark.
_PROJECT = re.compile(r"<!--\s*+(project)\s*+:", re.IGNORECASE)
_CLOSING = "-->"
_IMPORTANCE = re.compile(r"0*+(10|[1-9])\Z")
_TRIGGER_SEPARATOR = re.compile(r"[,;]")
_BAD_IN_KEY = frozenset("\r\n<>")


def parse(lines: Sequence[str], *, recall: bool, projects: bool) -> Annotations:
    """What the comments of one entry (given as its raw lines) say.

    `recall` admits triggers and importance (root `MEMORY.md` and `USER.md` only), `projects` admits project
    keys (every memory file except root `USER.md`). A project comment that is not closed, or with an empty
    or forbidden key, makes the whole entry `malformed`; other faults only void their own comment.
    """
    if not (recall or projects) or not any("<!--" in line for line in lines):
        return NO_ANNOTATIONS
    triggers: dict[str, None] = {}
    importance: int | None = None
    if recall:
        for keyword, value in _recall_comments(lines):
            if keyword == "trigger":
                triggers.update(dict.fromkeys(filter(None, map(str.strip, _TRIGGER_SEPARATOR.split(value)))))
            elif grade := _IMPORTANCE.match(value):
                importance = max(importance or 0, int(grade[1]))
    keys = _project_keys("\n".join(lines)) if projects else ()
    return Annotations(
        importance=importance,
        triggers=tuple(triggers),
        project_keys=keys or (),
        malformed=keys is None,
    )


def _recall_comments(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Trigger and importance comments: closed on their line, and the line ends with a comment."""
    for line in lines:
        if line.rstrip().endswith(_CLOSING):
            for keyword, value, _, end in _comments(line):
                if end is not None and keyword != "project":
                    yield keyword, value


def _project_keys(text: str) -> tuple[str, ...] | None:
    """The union of all project keys of an entry, or None when any of them is malformed."""
    keys: dict[str, None] = {}
    for _, value, _, end in _comments(text, _PROJECT):
        if end is None:
            return None
        for raw in value.split(";"):
            key = normalise_project_key(raw)
            if not key or not _BAD_IN_KEY.isdisjoint(key):
                return None
            keys[key] = None
    return tuple(keys)


def normalise_project_key(raw: str) -> str:
    """The comparable form of a key: trimmed, host lower-cased (`GitHub.com/Me/x` -> `github.com/Me/x`).

    `path:` keys, and keys with nothing before their first slash, stay as they are.
    """
    key = raw.strip()
    host, slash, rest = key.partition("/")
    if not slash or not host or key.startswith("path:"):
        return key
    return f"{host.lower()}/{rest}"


def strip(text: str) -> str:
    """The text without its single-line annotation comments, with the same number of lines.

    If at least one was removed, trailing spaces and tabs are removed from every line too; a text without
    any comes back untouched (U§10).
    """
    if "<!--" not in text:
        return text
    lines = text.split("\n")
    removed = False
    for number, line in enumerate(lines):
        spans = comment_spans(line)
        if spans:
            removed = True
            pieces, at = [], 0
            for start, end in spans:
                pieces.append(line[at:start])
                at = end
            pieces.append(line[at:])
            lines[number] = "".join(pieces)
    return "\n".join(map(_right_trimmed, lines)) if removed else text


def _right_trimmed(line: str) -> str:
    if line.endswith("\r"):
        return line[:-1].rstrip(" \t") + "\r"
    return line.rstrip(" \t")


def comment_spans(line: str) -> list[tuple[int, int]]:
    """Half-open ranges of the annotation comments that are closed within one line."""
    if "<!--" not in line:
        return []
    return [(start, end) for _, _, start, end in _comments(line) if end is not None]


def _comments(text: str, opening: re.Pattern[str] = _OPENING) -> Iterator[tuple[str, str, int, int | None]]:
    """Each comment's keyword (lower case), trimmed value, start and end; end None when it never closes."""
    at = close = 0
    while found := opening.search(text, at):
        at = found.end()
        # Once nothing closes any more, looking again for every opening would be quadratic.
        close = text.find(_CLOSING, at) if close >= 0 else -1
        keyword = found[1].lower()
        if close < 0:
            yield keyword, "", found.start(), None
        else:
            yield keyword, text[at:close].strip(), found.start(), close + len(_CLOSING)
            at = close + len(_CLOSING)
