"""The providers that the suite runs over. One more provider is one more entry of `SUBJECTS`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import msgspec

NOTES = {
    "MEMORY.md": "- The spare garage opener is in the blue tin.\n- Garage doors were painted green.\n",
    "memory/2026-03-04.md": "# Roof\n\nThe garage roof leaks in March.\n",
    "memory/handbook.md": "".join(f"{nth} line of the handbook\n" for nth in ("first", "second", "third")),
}


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A provider as it is configured, and what is known about what it answers.

    `query` finds a text with `known` in it, and at least three hits in all. `handbook` is the id of a text of
    three lines. `revisions`: a reference names exact text, and other text is not found. `notices`: a text
    that goes on ends with a notice. `host_trusted`: notes go to whoever the host opened for (spec
    §5.4, legacy). `files`: v1 is answered. `entry_point` is what has to be installed. `around` runs whatever
    the provider asks while its service runs, in a folder of its own, and gives lines of configuration.
    `partitions`: a search that names a project covers that project alone.
    """

    name: str
    provider_id: str
    adapter: str = "native"
    query: str = "garage"
    known: str = "spare garage opener is in the blue tin"
    handbook: str
    missing: str
    revisions: bool = True
    notices: bool = False
    host_trusted: bool = False
    files: bool = True
    entry_point: str | None = None
    around: Callable[[Path], AbstractAsyncContextManager[str]] | None = None
    partitions: bool = False


@asynccontextmanager
async def powercontext_store(directory: Path) -> AsyncIterator[str]:
    """A store on loopback whose records are the garage notes and the handbook."""
    from store_stub import Record, StoreStub

    stub = StoreStub(server_id="store")
    await stub.start()
    stub.scopes["openclaw:agent:main"] = "scp_main"
    key = {"external_id": "openclaw:agent:main", "integration": "openclaw-sidecar", "kind": "agent"}
    stub.bindings[json.dumps(key, sort_keys=True)] = "scp_main"
    lines = [line for line in "".join(NOTES.values()).splitlines() if "arage" in line]
    for number, text in enumerate((NOTES["memory/handbook.md"].strip(), *lines)):
        stub.records[f"art_{number}"] = Record(f"art_{number}", "scp_main", [("fact", text)])
    token = directory / "token"
    token.touch(mode=0o600)
    token.write_text(stub.token)
    try:
        yield f'[agents.main.powercontext]\nendpoint = "{stub.url}"\ntoken_file = "{token}"\n'
    finally:
        await stub.stop()


SUBJECTS = (
    Subject(
        name="workspace",
        provider_id="memory-sidecar",
        handbook="memory/handbook.md",
        missing="memory/none.md",
    ),
    Subject(
        name="legacy",
        provider_id="memory-sidecar-legacy",
        adapter="legacy",
        handbook="memory/handbook.md",
        missing="memory/none.md",
        revisions=False,
        notices=True,
        host_trusted=True,
    ),
    Subject(
        name="awkward",
        provider_id="awkward",
        handbook="r/3",
        missing="r/none",
        files=False,
        entry_point="awkward:make",
    ),
    Subject(
        name="powercontext",
        provider_id="powercontext",
        handbook="store/art_0",
        missing="store/art_none",
        files=False,
        around=powercontext_store,
        partitions=True,
    ),
)
