"""Golden exchanges: requests and the answers they must give, replayed over a real service.

Each `*.json` beside this file holds exchanges: what is sent and what is received. What changes from run to
run is masked, by the paths of `MASKED` and nothing else. `regenerate.py` writes the answers anew.
"""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent
WORKSPACE = GOLDEN.parents[1] / "examples" / "workspace"
MASK = "<masked>"
MASKED = (
    "payload.score",
    "payload.best",
    "payload.hits.*.score",
    "payload.hits.*.explain.*",
    "payload.hits.*.textScore",
    "payload.hits.*.vectorScore",
    "payload.hits.*.provenance.observedAt",
    "payload.results.*.score",
    "payload.results.*.textScore",
    "payload.results.*.vectorScore",
    "payload.details.index.generation",
    "payload.details.index.unsettled",
    "payload.details.watch.*",
    "payload.details.work.*",
    "payload.allowed",
    "payload.denied",
    "payload.decisions",
    "payload.instance",
    "payload.serviceVersion",
    "payload.lease",
    "error.details.instance",
    "error.details.requestId",
)
MASKED_IN_BARE_CALLS = ("id",)
"""The id of a frame that the service had to invent."""


def configuration(folder: Path) -> Path:
    """A file for two agents over the example workspace, the second without v1."""
    path = folder / "golden.toml"
    path.write_text(
        f'[agents.main]\nworkspace = "{WORKSPACE}"\ndefault = true\n'
        f'[agents.second]\nworkspace = "{WORKSPACE}"\nserve_v1 = false\n'
    )
    return path


def files() -> list[Path]:
    """The golden files."""
    return sorted(GOLDEN.glob("*.json"))


def ask(service: Any, send: dict[str, Any]) -> dict[str, Any]:
    """Send one request of a golden file; gives what is received, masked."""
    tokens = {"operator": service.operator_token, "host": service.host_token, "wrong": "x" * 43}
    headers = {"Host": f"127.0.0.1:{service.port}", "Content-Type": "application/json"}
    if send.get("token") != "none":
        headers["Authorization"] = f"Bearer {tokens[send.get('token', 'operator')]}"
    headers |= send.get("headers", {})
    body = json.dumps(send["json"]).encode() if "json" in send else send.get("text", "").encode()
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
    try:
        connection.request(send["method"], send["path"], body or None, headers)
        response = connection.getresponse()
        received = json.loads(response.read())
    finally:
        connection.close()
    bare = send["path"].startswith("/rpc/") and received.get("type") == "res"
    for path in (*MASKED, *(MASKED_IN_BARE_CALLS if bare else ())):
        mask(received, path.split("."))
    shown = {name: response.headers[name] for name in ("Allow", "Retry-After") if name in response.headers}
    return {"status": response.status, **({"headers": shown} if shown else {}), "body": received}


def mask(value: Any, path: list[str]) -> None:
    """Replace what stands at a path; `*` is every item or key."""
    if isinstance(value, list):
        keys: list[Any] = list(range(len(value))) if path[0] == "*" else []
    elif isinstance(value, dict):
        keys = list(value) if path[0] == "*" else [path[0]] if path[0] in value else []
    else:
        keys = []
    for key in keys:
        if len(path) == 1:
            value[key] = MASK
        else:
            mask(value[key], path[1:])
