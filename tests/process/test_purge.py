"""Text that left the workspace is in no file of the state directory after a purge (spec §2)."""

from __future__ import annotations

import contextlib
import secrets
import zlib
from pathlib import Path
from typing import Any

import pytest

from sidecar.runtime import agent
from sidecar.runtime.process import Sidecar
from sidecar.settings.load import Flags, load

BOUND_SECONDS = 600


def holders(directory: Path, secret: str) -> list[str]:
    """The files whose raw bytes, or any zlib stream in them, hold the secret in any case."""
    return sorted(
        str(path.relative_to(directory))
        for path in directory.rglob("*")
        if path.is_file() and not path.is_socket() and _holds(path.read_bytes(), secret.encode())
    )


def _holds(data: bytes, secret: bytes) -> bool:
    if secret in data.lower():
        return True
    start = data.find(b"\x78\x01")
    while start >= 0:
        with contextlib.suppress(zlib.error):
            if secret in zlib.decompressobj().decompress(data[start:]).lower():
                return True
        start = data.find(b"\x78\x01", start + 1)
    return False


async def test_removed_edited_and_renamed_away_text_is_in_no_file_of_the_state_after_a_purge(
    launcher: Any, workspace: Path, write: Any
) -> None:
    secret = "canary" + secrets.token_hex(6)
    notes = {f"memory/n{n}.md": f"# Note {n}\n\n- an ordinary line {n}\n" for n in range(30)}
    write(
        workspace,
        notes
        | {
            "memory/gone.md": f"- the {secret} of a removed note\n",
            "memory/edited.md": f"- kept\n\n- the {secret} of an edited note\n",
            f"memory/{secret}.md": "- only the name\n",
        },
    )
    service = launcher.serve(workspace)
    await service.ready()
    await service.call("sidecar.refresh", {})
    assert (await service.search(secret))["hits"]
    assert holders(service.state, secret), "the secret is not where this test looks for it"
    (workspace / "memory" / "gone.md").unlink()
    (workspace / "memory" / "edited.md").write_text("- kept\n")
    (workspace / "memory" / f"{secret}.md").rename(workspace / "memory" / "plain.md")
    await service.call("sidecar.refresh", {"purge": True})
    assert holders(service.state, secret) == []
    assert not any(secret in text for text in await service.excerpts(secret, minScore=0))
    assert (await service.search("ordinary line"))["hits"]
    assert service.stop() == 0
    assert holders(service.state, secret) == []


@pytest.mark.slow
async def test_without_being_asked_for_a_purge_text_that_left_is_in_no_file_within_its_bound(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, workspace: Path, write: Any, eventually: Any
) -> None:
    """The whole service in this process, since the bound of ten minutes is made short for it."""
    assert 2 * agent.MAINTAIN_SECONDS <= BOUND_SECONDS
    monkeypatch.setattr(agent, "MAINTAIN_SECONDS", 0.5)
    secret = "canary" + secrets.token_hex(6)
    notes = {f"memory/n{n}.md": f"# Note {n}\n\n- an ordinary line {n}\n" for n in range(30)}
    write(workspace, notes | {"memory/gone.md": f"- the {secret} of a removed note\n"})
    state = tmp_path / "state"
    flags = Flags(workspace=str(workspace), state_dir=str(state))
    async with Sidecar(load(flags, {"HOME": str(tmp_path)})) as sidecar:
        runtime: Any = sidecar.agents["main"]
        await runtime.refresh()
        assert holders(state, secret), "the secret is not where this test looks for it"
        runtime.start()
        (workspace / "memory" / "gone.md").unlink()

        async def gone() -> bool:
            return holders(state, secret) == []

        await eventually(gone, within=30)
