"""Every configuration key: what it accepts, its default in words, and what it is for (spec §2).

Keys are written as in the file; `<id>` stands for an agent's id. `[[tokens]]` is an array of tables. The
README's tables, `config show` and the loader all read this one list.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sidecar.settings import kinds
from sidecar.settings.kinds import Kind
from sidecar.settings.model import DEFAULT_WORKSPACE

ENV_PREFIX = "MEMORY_SIDECAR_"
AGENT = "agents.<id>."
CREDENTIAL = "tokens."


class Field(msgspec.Struct, frozen=True):
    """One key: its kind, the default as the README prints it (None: no default), one line of purpose."""

    kind: Kind
    default: str | None
    purpose: str


FIELDS: Mapping[str, Field] = {
    "host": Field(kinds.HOST, '"127.0.0.1"', "address to listen on; others than loopback need [[tokens]]"),
    "port": Field(kinds.integer(0, 65535), "8737", "TCP port; 0 picks a free one"),
    "allowed_hosts": Field(
        kinds.HOSTS, "[]", "extra Host names that requests may carry; loopback names always may"
    ),
    "allowed_origins": Field(kinds.ORIGINS, "[]", "extra browser origins that may send requests"),
    "agents.<id>.workspace": Field(
        kinds.PATH,
        f'"{DEFAULT_WORKSPACE}" for agent main',
        "folder with MEMORY.md, USER.md and memory/; it is only ever read",
    ),
    "agents.<id>.default": Field(
        kinds.BOOLEAN, "false", "the agent that is meant when a request names none; at most one"
    ),
    "agents.<id>.provider": Field(
        kinds.PROVIDER, '"workspace"', '"workspace", "legacy", "powercontext" or an installed entry point'
    ),
    "agents.<id>.serve_v1": Field(
        kinds.BOOLEAN, "true", "answer memory.search v1; false refuses it with the native-owner error"
    ),
    "agents.<id>.extra_paths": Field(
        kinds.EXTRA_PATHS, "[]", "more files or folders to index, relative to the workspace"
    ),
    "agents.<id>.exclude": Field(
        kinds.TEXTS, "[]", "gitignore-style patterns that are not indexed, on top of the built-in ones"
    ),
    "agents.<id>.search_sources": Field(
        kinds.SEARCH_SOURCES, '["memory"]', "what a search without sources covers"
    ),
    "agents.<id>.sandboxed_access": Field(
        kinds.choice("deny", "allow"), '"deny"', "whether sandboxed callers may read at all"
    ),
    "agents.<id>.sessions.enabled": Field(kinds.BOOLEAN, "false", "index this agent's session transcripts"),
    "agents.<id>.sessions.directory": Field(
        kinds.PATH, '"~/.openclaw/agents/<id>/sessions"', "folder with the transcript files"
    ),
    "agents.<id>.sessions.visibility": Field(
        kinds.choice("self", "tree", "agent"),
        '"self"',
        "whose transcripts a session may find: its own, its tree's, its agent's",
    ),
    "agents.<id>.sessions.include_reset_archives": Field(
        kinds.BOOLEAN, "false", "also index transcripts that were archived by a reset"
    ),
    "embeddings.provider": Field(
        kinds.choice("local", "openai-compatible", "none"),
        '"local"',
        "bundled static model, a remote endpoint, or words only",
    ),
    "embeddings.base_url": Field(kinds.URL, None, "address of the endpoint, up to and without /embeddings"),
    "embeddings.model": Field(kinds.TEXT, None, "model name that the endpoint knows"),
    "embeddings.api_key_env": Field(kinds.ENV_NAME, None, "environment variable that holds the API key"),
    "embeddings.dimensions": Field(
        kinds.integer(8, 4096), None, "dimensions to ask the endpoint for; absent: the model's own"
    ),
    "embeddings.query_input_type": Field(kinds.TEXT, None, "input_type to send with queries"),
    "embeddings.document_input_type": Field(kinds.TEXT, None, "input_type to send with notes"),
    "embeddings.timeout_seconds": Field(
        kinds.number(0.1, 600), "10", "longest wait for one request, seconds"
    ),
    "embeddings.on_failure": Field(
        kinds.choice("lexical", "error"),
        '"lexical"',
        "when the endpoint fails: search by words and say so, or refuse the query",
    ),
    "watch.mode": Field(
        kinds.choice("auto", "events", "polling"),
        '"auto"',
        "how changes are noticed; auto polls where events cannot be had",
    ),
    "watch.poll_seconds": Field(kinds.number(0.1, 3600), "2", "polling interval, seconds"),
    "tokens.name": Field(kinds.NAME, None, "name of the token in logs and audit; unique"),
    "tokens.role": Field(
        kinds.choice("operator", "host"), None, "operator reads; host may vouch for any caller of its agents"
    ),
    "tokens.secret_env": Field(kinds.ENV_NAME, None, "environment variable that holds the secret"),
    "tokens.secret_file": Field(
        kinds.PATH, None, "file that holds the secret, readable by its owner only, relative to this file"
    ),
    "tokens.scopes": Field(kinds.SCOPES, '["operator.read"]', "what the token may do"),
    "tokens.agents": Field(kinds.AGENT_IDS, "every configured agent", "agents that the token sees"),
}


def children(prefix: str) -> tuple[str, ...]:
    """The keys that may stand directly in a table (`""`, `"agents.<id>."`, `"watch."`), tables included."""
    names = (key[len(prefix) :].split(".")[0] for key in FIELDS if key.startswith(prefix))
    return tuple(dict.fromkeys(names))


def env_name(key: str) -> str | None:
    """The environment variable of a key; keys of agents and tokens have none."""
    if key.startswith((AGENT, CREDENTIAL)):
        return None
    return ENV_PREFIX + key.replace(".", "_").upper()


ENVIRONMENT: Mapping[str, str] = {
    f"{ENV_PREFIX}CONFIG": "configuration file, as --config",
    f"{ENV_PREFIX}WORKSPACE": "workspace folder, as --workspace",
    f"{ENV_PREFIX}AGENT": "agent id, as --agent",
    f"{ENV_PREFIX}STATE_DIR": "state directory, as --state-dir",
    f"{ENV_PREFIX}LOG_LEVEL": "debug, info, warning or error, as --log-level",
    f"{ENV_PREFIX}OPERATOR_TOKEN": "secret of an operator token, where the file has no [[tokens]]",
    f"{ENV_PREFIX}HOST_TOKEN": "secret of a host token, where the file has no [[tokens]]",
    **{name: field.purpose for key, field in FIELDS.items() if (name := env_name(key)) is not None},
}
