"""`memory.get` gives exactly what a hit cited, what the rules admit, and nothing else (spec §5.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

OWN = "memory-sidecar"


async def get(service: Any, reference: dict[str, Any], **bounds: int) -> Any:
    return await service.call("memory.get", {"reference": reference, **bounds})


async def test_a_hits_reference_gives_exactly_the_lines_it_cites(example: Any, workspace: Path) -> None:
    for query in ("garage opener", "boiler serviced", "main tap", "valve under the stairs"):
        hit = (await example.search(query))["hits"][0]
        citation = hit["citations"][0]
        lines = (workspace / hit["reference"]["id"]).read_text().split("\n")
        named = "\n".join(lines[citation["startLine"] - 1 : citation["endLine"]])
        answer = await get(example, hit["reference"])
        assert answer["status"] == "ok"
        assert answer["text"] == named == hit["excerpt"]
        assert answer["reference"] == hit["reference"]


async def test_after_the_lines_changed_the_old_reference_is_not_found(example: Any, workspace: Path) -> None:
    hit = (await example.search("main tap"))["hits"][0]
    path = workspace / hit["reference"]["id"]
    path.write_text(path.read_text().replace("outside", "in the cellar"))
    assert await get(example, hit["reference"]) == {
        "version": 2,
        "agentId": "main",
        "providerId": OWN,
        "status": "not_found",
    }


async def test_text_that_moved_within_its_file_is_found_with_its_present_lines(
    example: Any, workspace: Path
) -> None:
    hit = (await example.search("garage opener"))["hits"][0]
    path = workspace / "MEMORY.md"
    path.write_text("intro\n\nmore\n" + path.read_text())
    answer = await get(example, hit["reference"])
    assert answer["status"] == "ok"
    assert answer["text"] == hit["excerpt"]
    first = hit["citations"][0]["startLine"] + 3
    assert answer["citations"][0]["startLine"] == first
    assert answer["reference"]["fragment"] == f"L{first}-L{first}"


async def test_bounds_say_where_to_go_on(example: Any, workspace: Path, write: Any) -> None:
    write(workspace, {"memory/long.md": "".join(f"line {n}\n" for n in range(1, 301))})
    reference = {"providerId": OWN, "id": "memory/long.md"}
    first = await get(example, reference)
    assert (first["from"], first["lines"], first["truncated"], first["nextFrom"]) == (1, 120, True, 121)
    assert first["text"].split("\n")[-1] == "line 120"
    second = await get(example, reference, **{"from": 299})
    assert (second["text"], second["from"], second["lines"]) == ("line 299\nline 300", 299, 2)
    assert "truncated" not in second
    assert "nextFrom" not in second
    some = await get(example, reference, **{"from": 10, "lines": 2})
    assert (some["text"], some["nextFrom"]) == ("line 10\nline 11", 12)
    past = await get(example, reference, **{"from": 400})
    assert (past["status"], past["text"], past["from"], past["lines"]) == ("ok", "", 400, 0)


NOT_MEMORY = [
    "AGENTS.md",
    ".env",
    "src/readme.md",
    "memory/pic.png",
    "memory/list.txt",
    "memory",
    "memory/",
    "memory.md",
    "memory/../.env",
    "../outside.md",
    "memory/../../outside.md",
    "/etc/passwd",
    "memory/absent.md",
    "memory/x\0.md",
    "memory/link.md",
    "linked/a.md",
    "memory/%2e%2e/AGENTS.md",
    "memory/dir.md",
    ".",
    "..",
    "/",
    "memory/Ok.MD",
    "con",
    "memory/" + "x" * 300 + ".md",
]


async def test_what_is_not_memory_is_one_and_the_same_not_found(
    example: Any, workspace: Path, write: Any
) -> None:
    write(
        workspace,
        {
            "AGENTS.md": "secret agents\n", ".env": "KEY=secret\n", "src/readme.md": "secret source\n",
            "memory/pic.png": "x", "memory/list.txt": "secret list\n", "memory.md": "lower\n",
            "memory/Ok.MD": "upper\n",
        },
    )  # fmt: skip
    (workspace.parent / "outside.md").write_text("secret outside\n")
    (workspace / "memory" / "dir.md").mkdir()
    (workspace / "memory" / "link.md").symlink_to(workspace / "AGENTS.md")
    (workspace / "linked").symlink_to(workspace / "memory")
    # That a folder of the host was guessed right is nothing to be told.
    guessed = [
        str(workspace / "MEMORY.md"),
        f"../{workspace.name}/MEMORY.md",
        f"memory/../../{workspace.name}/MEMORY.md",
    ]
    for name in [*NOT_MEMORY, *guessed]:
        answer = await get(example, {"providerId": OWN, "id": name})
        assert answer == {"version": 2, "agentId": "main", "providerId": OWN, "status": "not_found"}, name
    found = await example.search("secret")
    assert "secret" not in str(found["hits"])
