"""Asks a running service with the typed client: a search, and the text of the first hit.

    python examples/client/ask.py STATE_DIR "where is the spare key?"
    SIDECAR_TOKEN=... python examples/client/ask.py http://127.0.0.1:8737 "where is the spare key?"

With a state directory it goes over the Unix socket there, with the token beside it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from sidecar.client import ServiceUnreachable, SidecarClient
from sidecar.domain.errors import SidecarError


def client_of(place: str) -> SidecarClient:
    """A client over the socket of a state directory, or over TCP."""
    if place.startswith("http"):
        return SidecarClient.over_tcp(place, os.environ["SIDECAR_TOKEN"])
    folder = Path(place)
    return SidecarClient.over_socket(folder, (folder / "operator.token").read_text().strip())


async def ask(place: str, question: str) -> int:
    async with client_of(place) as client:
        page = await client.call("memory.search", {"version": 2, "query": question, "maxResults": 3})
        hits = page["hits"]
        assert isinstance(hits, list)
        for hit in hits:
            print(f"{hit['score']:.3f}  {hit['citations'][0]['label']}")
        if page.get("coverage") == "partial":
            print(f"something may be missing: {page.get('warning')}", file=sys.stderr)
        if not hits:
            return 1
        # A reference names exact text: this gives that text, or `not_found` if it changed.
        found = await client.call("memory.get", {"reference": hits[0]["reference"]})
        print(found["text"] if found["status"] == "ok" else "it changed a moment ago")
    return 0


def main() -> int:
    try:
        return asyncio.run(ask(sys.argv[1], sys.argv[2]))
    except ServiceUnreachable as error:
        print(f"no service: {error.message}", file=sys.stderr)
    except SidecarError as error:
        # Every error of the wire is one class of `sidecar.domain.errors`.
        print(f"{error.code}: {error.message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
