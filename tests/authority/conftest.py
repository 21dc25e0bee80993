"""One service with two agents whose names overlap, tokens of every kind, and texts that name their owner."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

AGENTS = ("pro", "project-secret")
# Token: role, scopes, agents (None: all).
TOKENS: dict[str, tuple[str, list[str], list[str] | None]] = {
    "all": ("operator", ["operator.read"], None),
    "listed": ("operator", ["operator.read"], ["pro", "project-secret"]),
    "pro": ("operator", ["operator.read"], ["pro"]),
    "admin-pro": ("operator", ["operator.admin"], ["pro"]),
    "bare": ("operator", [], None),
    "host": ("host", ["operator.read"], None),
    "host-pro": ("host", ["operator.read"], ["pro"]),
    "host-bare": ("host", [], None),
}
SECRETS = {name: f"{name}-secret-0123456789abcdef" for name in TOKENS}


class Answer:
    """Everything that came back."""

    def __init__(self, status: int, raw: bytes) -> None:
        self.status = status
        self.raw = raw
        self.frame: Any = json.loads(raw.rpartition(b"\r\n\r\n")[2])

    @property
    def payload(self) -> Any:
        assert self.frame["ok"], self.frame
        return self.frame["payload"]

    @property
    def error(self) -> Any:
        return self.frame["error"]


def ask(url: str, method: str, params: object, *, secret: str | None) -> Answer:
    """One call with its headers and body as bytes."""
    headers = {"Content-Type": "application/json"}
    if secret is not None:
        headers["Authorization"] = f"Bearer {secret}"
    request = urllib.request.Request(  # noqa: S310
        f"{url}/rpc/{method}", json.dumps(params).encode(), headers, method="POST"
    )
    try:
        response = urllib.request.urlopen(request, timeout=20)  # noqa: S310
    except urllib.error.HTTPError as error:
        response = error
    with response:
        return Answer(response.status, bytes(response.headers) + b"\r\n\r\n" + response.read())


class World:
    """The running service and what was planted in it."""

    def __init__(self, service: Any, root: Path, launcher: Any) -> None:
        self.service = service
        self.root = root
        self.secrets = SECRETS
        self._launcher = launcher

    def log(self) -> str:
        return str(self._launcher.log())

    async def report(self, agent: str) -> None:
        """Report every session of an agent."""
        answer = await self.call("host", "session.replace", {"agentId": agent, "rows": session_rows(agent)})
        assert answer.status == 200

    async def call(self, token: str | None, method: str, params: object) -> Answer:
        """A call with a token of the table, or without any."""
        secret = None if token is None else SECRETS[token]
        return await asyncio.to_thread(ask, self.service.url, method, params, secret=secret)


VISIBILITY = {"pro": "tree", "project-secret": "agent"}
# Session: its number, what its row says beside its key, and what its file's name ends with; no row: None.
SESSIONS: dict[str, tuple[int, dict[str, Any] | None, str]] = {
    "main": (1, {"chatType": "direct"}, ""),
    "ann": (2, {"chatType": "direct"}, ""),
    "group": (3, {"chatType": "group"}, ""),
    "sub": (4, {"parent": "main", "spawnedBySenderIsOwner": True}, ""),
    "gsub": (5, {"parent": "group", "spawnedBySenderIsOwner": True}, ""),
    "hidden": (6, {"chatType": "direct", "incognito": True}, ""),
    "lost": (7, None, ""),
    "gone": (8, {"chatType": "direct"}, ".deleted.2026-03-04T05-06-07.000Z"),
}


def session_id(name: str) -> str:
    return f"{SESSIONS[name][0]:08x}-0000-4000-8000-000000000000"


def transcript_of(name: str) -> str:
    """The file name of a session's transcript."""
    return f"{session_id(name)}.jsonl{SESSIONS[name][2]}"


def session_rows(agent: str) -> list[dict[str, Any]]:
    """The rows that a host reports of an agent."""
    rows = []
    for name, (_, said, _) in SESSIONS.items():
        if said is None:
            continue
        row = {"sessionKey": f"agent:{agent}:{name}", "sessionId": session_id(name)} | said
        parent = row.pop("parent", None)
        if parent is not None:
            row |= {"parentSessionKey": f"agent:{agent}:{parent}", "parentSessionId": session_id(parent)}
        rows.append(row)
    return rows


def plant_transcripts(root: Path) -> None:
    """One transcript a session, whose words name it."""
    for agent, name in itertools.product(AGENTS, SESSIONS):
        path = root / f"{agent}-sessions" / transcript_of(name)
        path.parent.mkdir(exist_ok=True)
        said = {"role": "user", "content": f"The lantern of talk-{agent}-{name} was lit."}
        lines = [
            {"type": "session", "version": 4, "id": session_id(name), "timestamp": "2026-03-04T05:06:07Z"},
            {"type": "message", "id": "1", "timestamp": "2026-03-04T05:06:08Z", "message": said},
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def plant(root: Path) -> None:
    """Two workspaces side by side whose names begin alike, with links and case variants between them."""
    for agent in AGENTS:
        notes = {
            "MEMORY.md": f"# Memory\n\n- The lantern stands in canary-{agent}-memory.\n",
            "USER.md": f"# User\n\n- Prefers lantern oil, canary-{agent}-user.\n",
            "memory/2026-03-04.md": f"# Lantern\n\nThe lantern was filled at canary-{agent}-daily.\n",
            "memory/Shared.md": f"Shared lantern words, canary-{agent}-shared.\n",
            f"memory/canary-{agent}-unindexed.txt": f"lantern canary-{agent}-skippedtext\n",
            f"sessions/canary-{agent}-live.jsonl": json.dumps(
                {"type": "message", "message": {"role": "user", "content": f"lantern canary-{agent}-said"}}
            ),
        }
        for name, text in notes.items():
            path = root / agent / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (root / agent / "memory" / f"canary-{agent}-skipped.md").symlink_to("../MEMORY.md")
    mine, other = root / "pro", root / "project-secret"
    (mine / "memory" / "file.md").symlink_to(other / "MEMORY.md")
    (mine / "memory" / "folder").symlink_to(other / "memory")
    (mine / "memory" / "SHARED.md").symlink_to(other / "memory" / "Shared.md")
    (other / "memory" / "back").symlink_to(mine)


@pytest.fixture(scope="session")
def world(session_launcher: Any) -> World:
    root: Path = session_launcher.directory / "agents"
    plant(root)
    plant_transcripts(root)
    lines = ['[embeddings]\nprovider = "none"\n']
    for agent in AGENTS:
        lines.append(f'[agents.{agent}]\nworkspace = "{root / agent}"\n')
        lines.append(f'[agents.{agent}.sessions]\nenabled = true\ndirectory = "{root / agent}-sessions"\n')
        lines.append(f'visibility = "{VISIBILITY[agent]}"\n')
    environment = {}
    for name, (role, scopes, agents) in TOKENS.items():
        variable = f"SECRET_{name.upper().replace('-', '_')}"
        environment[variable] = SECRETS[name]
        lines.append(f'[[tokens]]\nname = "{name}"\nrole = "{role}"\nsecret_env = "{variable}"\n')
        lines.append(f"scopes = {json.dumps(scopes)}\n")
        lines += [] if agents is None else [f"agents = {json.dumps(agents)}\n"]
    config = session_launcher.directory / "agents.toml"
    config.write_text("".join(lines))
    assert not {name for name in environment if name in os.environ}
    service = session_launcher.serve(None, "--config", str(config), environment=environment)
    for agent in AGENTS:
        counted = ask(service.url, "sidecar.refresh", {"agentId": agent}, secret=SECRETS["all"])
        assert counted.payload["files"] == 4
    return World(service, root, session_launcher)
