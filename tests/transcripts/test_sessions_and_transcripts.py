"""A session of a host finds transcripts by its rows, its audience and the visibility (spec §5.4)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

OWN = "11111111-1111-1111-1111-111111111111"
OTHER = "22222222-2222-2222-2222-222222222222"


async def test_a_session_sees_its_own_transcript_and_no_other(
    launcher: Any, tmp_path: Path, serving: Any, say: Any
) -> None:
    served = serving(launcher, tmp_path, environment={"MEMORY_SIDECAR_EMBEDDINGS_PROVIDER": "none"})
    served.write(f"{OWN}.jsonl", say("user", "my zeppelin"))
    served.write(f"{OTHER}.jsonl", say("user", "another zeppelin"))
    service = served.service
    await service.ready()

    async def host(method: str, params: dict[str, object]) -> Any:
        status, frame = await service.post(f"/rpc/{method}", params, token=service.host_token)
        assert status == 200, frame
        return frame["payload"]

    for key, session_id in (("agent:main:main", OWN), ("agent:main:telegram:dm:7", OTHER)):
        row = {"sessionKey": key, "sessionId": session_id, "chatType": "direct", "senderIsOwner": True}
        await host("session.put", row)
    who = {
        "agentId": "main",
        "sessionKey": "agent:main:telegram:dm:7",
        "sessionId": OTHER,
        "senderIsOwner": True,
    }
    granted = await host("audience.resolve", who)
    assert granted["status"] == "granted"
    authority = {
        "kind": "session",
        "sessionKey": who["sessionKey"],
        "sessionId": OTHER,
        "sandboxed": False,
        "audience": granted["audience"],
    }
    opened = await host("provider.open", {"agentId": "main", "authority": authority})
    request = {"query": "zeppelin", "sources": ["sessions"], "minScore": 0}
    page = await host("provider.search", {"lease": opened["lease"], "request": request})
    assert [hit["reference"]["id"] for hit in page["hits"]] == [f"sessions/main/{OTHER}.jsonl"]
    assert OWN not in json.dumps(page)
    hidden = {"reference": {"providerId": "memory-sidecar", "id": f"sessions/main/{OWN}.jsonl"}}
    got = await host("provider.get", {"lease": opened["lease"], "request": hidden})
    assert got["status"] == "not_found"
    assert len(await served.found("zeppelin", minScore=0)) == 2
    assert service.stop() == 0
