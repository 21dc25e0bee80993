"""A host in the manner of a gateway: it reports its sessions, and asks for memory on behalf of a turn.

    export HOST_TOKEN=$(memory-sidecar token --role host)
    python examples/host/host.py http://127.0.0.1:8737 "where is the spare key?"

A host vouches for its callers, so its token is full read of its agents. Standard library only.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from typing import Any

AGENT = "main"
# Two sessions as a gateway's store has them: the owner's own chat, and a group that others read along.
OWNER = {
    "sessionKey": "agent:main:main",
    "sessionId": "2f1d9c0a-53c4-4a54-9f0e-6d1b1f6f7a01",
    "chatType": "direct",
    "senderIsOwner": True,
}
GROUP = {
    "sessionKey": "agent:main:group:7",
    "sessionId": "7c0e4e7e-0f0a-4a6f-8c55-1d7a4c1f2b02",
    "chatType": "group",
    "senderIsOwner": False,
}


class Refused(Exception):
    """The sidecar's error object."""


class Host:
    """Calls host methods, and reports its rows again whenever the sidecar has started anew."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._token = token
        self._instance = ""

    def call(self, method: str, params: dict[str, object]) -> dict[str, Any]:
        """The payload of a method, after the rows are known to the process that answers."""
        payload = self._post(method, params)
        if payload.get("instance") != self._instance:
            # Rows and audiences live in that process alone: another instance knows nothing of them yet.
            self._instance = str(payload.get("instance"))
            self._post("session.replace", {"agentId": AGENT, "rows": [OWNER, GROUP]})
            payload = self._post(method, params)
        return payload

    def _post(self, method: str, params: dict[str, object]) -> dict[str, Any]:
        request = urllib.request.Request(  # noqa: S310 - the address that was given
            f"{self._url}/rpc/{method}",
            json.dumps(params).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
                frame: dict[str, Any] = json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                body = json.load(error)
            raise Refused(body.get("error", body)) from None
        payload: dict[str, Any] = frame["payload"]
        return payload

    def recall(self, session: dict[str, Any], query: str) -> list[dict[str, Any]]:
        """What a turn of this session may find. Nothing, and why, where it may see nothing."""
        keys = {"agentId": AGENT, "sessionKey": session["sessionKey"], "sessionId": session["sessionId"]}
        resolved = self.call("audience.resolve", {**keys, "senderIsOwner": session["senderIsOwner"]})
        authority: dict[str, object] = {
            "kind": "session",
            "sessionKey": session["sessionKey"],
            "sessionId": session["sessionId"],
            "sandboxed": False,
        }
        if resolved["status"] == "granted":
            authority["audience"] = resolved["audience"]["handle"]
        opened = self.call("provider.open", {"agentId": AGENT, "purpose": "default", "authority": authority})
        try:
            asked: dict[str, object] = {"query": query, "maxResults": 3}
            page = self.call("provider.search", {"lease": opened["lease"], "request": asked})
        finally:
            self.call("provider.close", {"lease": opened["lease"]})
        if "warning" in page:
            print(f"  {page['warning']}")
        found: list[dict[str, Any]] = page["hits"]
        return found


def main() -> int:
    host = Host(sys.argv[1], os.environ["HOST_TOKEN"])
    query = sys.argv[2]
    for name, session in (("the owner", OWNER), ("the group", GROUP)):
        print(f"{name} asks: {query}")
        for hit in host.recall(session, query):
            print(f"  {hit['score']:.3f}  {hit['citations'][0]['label']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
