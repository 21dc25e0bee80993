"""Project keys: a window holds one set of keys, never a malformed entry, and a filter lets no other by."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paging_world import World, cases

pytestmark = pytest.mark.slow

Block = tuple[list[str], frozenset[str] | None]
"""Lines of one entry and its project keys; None where they are malformed."""

MARKS: dict[str, frozenset[str] | None] = {
    "": frozenset(),
    " <!-- project: p -->": frozenset({"p"}),
    " <!-- project: p ; GitHub.com/Me/x -->": frozenset({"p", "github.com/Me/x"}),
    " <!-- project: github.com/Me/x; p -->": frozenset({"p", "github.com/Me/x"}),
    " <!-- project: P -->": frozenset({"P"}),
    " <!-- project: p;; q -->": None,
    " <!-- project: -->": None,
    " <!-- project: a<b -->": None,
    " <!-- PROJECT : p --> <!-- trigger: t -->": frozenset({"p"}),
    " <!-- importance: 99 -->": frozenset(),
    " <!-- note: p -->": frozenset(),
}
BODY = st.sampled_from(["valve", "valve boiler", "boiler " * 30, "permit valve " * 12, "garden é😀"])


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    mark = draw(st.sampled_from(sorted(MARKS)))
    kind = draw(st.sampled_from(["bullet", "bullet", "deep", "paragraph", "heading", "code"]))
    body, more = draw(BODY), draw(BODY)
    keys = MARKS[mark]
    match kind:
        case "bullet":
            return [f"- {body}{mark}"], keys
        case "deep":
            at = draw(st.integers(0, 2))
            marks = [mark if at == place else "" for place in range(3)]
            return [f"- {body}{marks[0]}", f"  {more}{marks[1]}", f"  - {body}{marks[2]}"], keys
        case "paragraph":
            return ["", f"{body}{mark} {more}", more, ""], keys
        case "heading":
            return ["", f"## {body[:40].strip()}{mark}", ""], keys
        case _:
            return ["", "```", body, f"{more}{mark}", "```", ""], keys


NOTES = st.lists(blocks(), min_size=1, max_size=12)
ACTIVE = st.none() | st.lists(
    st.sampled_from(["p", "P", "q", "github.com/Me/x", "GITHUB.com/Me/x"]), max_size=3
)


def check(world: World, note: list[Block], active: list[str] | None) -> None:
    owners = [keys for lines, keys in note for _ in lines]
    text = "\n".join(line for lines, _ in note for line in lines)
    world.agent.write({"memory/a.md": text})
    world.run(world.agent.scan())
    keys = None if active is None else tuple(active)
    asked: dict[str, Any] = {"min_score": 0.0, "active_project_keys": keys}
    hits = world.run(world.agent.page("valve boiler permit garden", 200, **asked)).hits
    allowed = {key.replace("GITHUB", "github") for key in active or ()}
    shown: set[int] = set()
    for hit in hits:
        assert hit.recall is not None
        for number in range(hit.lines.start, hit.lines.end + 1):
            if text.split("\n")[number - 1].strip():
                assert owners[number - 1] == frozenset(hit.recall.project_keys), (hit, number)
        assert not allowed or allowed.issuperset(hit.recall.project_keys)
        for place in hit.citations:
            assert place.start_line is not None
            assert place.end_line is not None
            shown.update(range(place.start_line, place.end_line + 1))
    for number, (line, owner) in enumerate(zip(text.split("\n"), owners, strict=True), start=1):
        admitted = owner is not None and (not allowed or allowed >= owner)
        if admitted and ("valve" in line or "permit" in line):
            assert number in shown, line


@settings(max_examples=15)
@given(note=NOTES, active=ACTIVE)
def test_windows_never_cross_a_project_border_and_filters_hold(
    world: Any, note: list[Block], active: list[str] | None
) -> None:
    """Absent and empty keys filter nothing; with keys an entry passes only if all of its own are active."""
    check(world, note, active)


@pytest.mark.slow
@settings(max_examples=cases(1000) // 5)
@given(note=NOTES, active=ACTIVE)
def test_no_window_in_hundreds_of_notes_crosses_a_project_border(
    world: Any, note: list[Block], active: list[str] | None
) -> None:
    """The same in full: ten times as many with `PROPERTY_CASES=10000`."""
    check(world, note, active)


def test_a_text_whose_entry_has_gone_to_another_project_leaves_the_walk(world: Any) -> None:
    """The lines still stand, but a mark above them holds for them now: the filter is asked anew."""
    names = ["one", "two", "three", "four", "five"]
    world.agent.write({f"memory/{name}.md": f"The valve of {name}.\n" for name in names})
    world.run(world.agent.scan())
    marks = {"project: q": False, "project: p": True, "project: ;": False, "trigger: p": True}

    async def walk() -> None:
        agent, keys = world.agent, {"active_project_keys": ("p",), "min_score": 0.0}
        ranking = (await agent.page("valve", 50, **keys)).hits
        page = await agent.page("valve", 1, **keys)
        for hit, mark in zip(ranking[1:], marks, strict=True):
            path = agent.workspace / hit.path
            path.write_text(f"- above <!-- {mark} -->\n{path.read_text()}")
        expected = [hit.excerpt for hit, stays in zip(ranking[1:], marks.values(), strict=True) if stays]
        for _ in range(2):  # before and after the index has seen it
            found = (await agent.page("valve", 50, page.next_cursor, **keys)).hits
            assert [hit.excerpt for hit in found] == expected
            assert [hit.recall and hit.recall.project_keys for hit in found] == [("p",), ()]
            await agent.scan()

    world.run(walk())
