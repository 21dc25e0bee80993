"""Transcripts as gateways write them, and a service that reads them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

# Makes `transcript_follower`, and `reads` of the notes' tests, importable for the tests of this folder.
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "service"))


def said(role: str, content: object, **more: object) -> dict[str, object]:
    """A message record. `more` goes into the message; `record` into the record around it."""
    outer = more.pop("record", {})
    assert isinstance(outer, dict)
    return {
        "type": "message",
        "id": "m",
        "timestamp": "2026-01-02T03:04:05.000Z",
        "message": {"role": role, "content": content, **more},
        **outer,
    }


def lines_of(*records: object) -> bytes:
    """Records as JSONL; bytes and strings stand for themselves."""
    out = b""
    for record in records:
        if isinstance(record, bytes):
            out += record
        elif isinstance(record, str):
            out += record.encode() + b"\n"
        else:
            out += json.dumps(record, ensure_ascii=False).encode() + b"\n"
    return out


class Served(NamedTuple):
    """A service over an empty workspace and a folder of transcripts."""

    service: Any
    sessions: Path
    workspace: Path

    async def found(self, query: str, **params: object) -> list[Any]:
        """The hits among transcripts."""
        answer = await self.service.search(query, sources=["sessions"], **params)
        return list(answer["hits"])

    async def finds(self, query: str) -> bool:
        """Whether any transcript is found."""
        return bool(await self.found(query))

    def write(self, name: str, *records: object) -> Path:
        """A transcript of this name."""
        path = self.sessions / name
        path.write_bytes(lines_of(*records))
        return path


@pytest.fixture(scope="session")
def say() -> Callable[..., dict[str, object]]:
    """`say(role, content, **more)`: a message record."""
    return said


@pytest.fixture(scope="session")
def jsonl() -> Callable[..., bytes]:
    """`jsonl(*records)`: the bytes of a transcript."""
    return lines_of


@pytest.fixture(scope="session")
def serving() -> Callable[..., Served]:
    """`serving(launcher, folder, settings=..., agent=...)`: a service with transcripts on."""

    def start(
        launcher: Any,
        folder: Path,
        *,
        settings: str = "",
        agent: str = "",
        environment: dict[str, str] | None = None,
    ) -> Served:
        workspace = folder / "workspace"
        sessions = folder / "agents" / "main" / "sessions"
        workspace.mkdir(exist_ok=True)
        sessions.mkdir(parents=True, exist_ok=True)
        config = folder / "sidecar.toml"
        config.write_text(
            f'[agents.main]\nworkspace = "{workspace}"\n{agent}\n'
            f'[agents.main.sessions]\nenabled = true\ndirectory = "{sessions}"\n{settings}\n'
        )
        service = launcher.serve(None, "--config", str(config), environment=environment)
        return Served(service, sessions, workspace)

    return start
