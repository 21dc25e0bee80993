"""What a person does with the page, in a real browser: sign in, search, ask why, read around, filter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

NOTES = {
    "MEMORY.md": "# Memory\n\n- The spare garage opener is in the blue tin. <!-- importance: 7 -->\n"
    "- Tea before ten.\n",
    "memory/2026-03-04.md": "# Boiler\n\nBoiler serviced by Halden and Sons, next visit October.\n",
    "memory/2026-05-06.md": "# Kettle\n\nThe kettle was descaled; the boiler had a new valve.\n",
    "memory/handbook.md": "# Handbook\n\n"
    + "".join(f"Step {n}: look at gauge {n}.\n" for n in range(1, 61))
    + "\n## Boiler\n\nTurn the boiler valve under the stairs.\n\n## Water\n\nThe main tap is outside.\n",
    "memory/skipped.txt": "not a note\n",
}


@pytest.fixture(scope="module")
def served(shared_launcher: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A service over a few notes, for all tests of this file."""
    from page_visit import wait_ready

    workspace = tmp_path_factory.mktemp("workspace")
    for name, text in NOTES.items():
        path = workspace / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    service = shared_launcher.serve(workspace)
    wait_ready(service)
    yield service
    assert service.stop() == 0


def test_before_somebody_signs_in_the_page_shows_and_asks_nothing(visit: Any, served: Any) -> None:
    from playwright.sync_api import expect

    tab = visit(served)
    expect(tab.page.locator("#token")).to_be_focused()
    for view in ("#view-search", "#view-state", "#view-audit", "#views", "#session"):
        expect(tab.page.locator(view)).to_be_hidden()
    assert [url for url in tab.requests if "/rpc" in url] == []


def test_a_wrong_token_is_said_and_nothing_is_shown(visit: Any, served: Any) -> None:
    from playwright.sync_api import expect

    tab = visit(served, may_log="401")
    for wrong in ("x" * 43, "has spaces in it", "žluťoučký"):
        tab.page.fill("#token", wrong)
        tab.page.keyboard.press("Enter")
        expect(tab.page.locator("#sign-in-error")).to_contain_text(
            "does not match" if wrong.startswith("x") else "no letters beyond ASCII"
        )
        expect(tab.page.locator("#token")).to_be_focused()
    expect(tab.page.locator("#view-search")).to_be_hidden()
    assert [url for url in tab.requests if "/rpc" in url] == [f"{served.url}/rpc/sidecar.caller"]
    tab.sign_in()


def test_the_token_is_in_memory_alone_and_gone_with_a_reload_or_a_sign_out(visit: Any, served: Any) -> None:
    from playwright.sync_api import expect

    tab = visit(served).sign_in().search("boiler")
    kept = tab.page.evaluate(
        "async () => [document.documentElement.outerHTML, location.href, document.cookie,"
        " JSON.stringify(Object.values(localStorage)), JSON.stringify(Object.values(sessionStorage)),"
        " JSON.stringify(await indexedDB.databases()), JSON.stringify(history.state),"
        " [...document.querySelectorAll('input')].map((it) => it.value).join(' '), window.name]"
    )
    assert [text for text in kept if served.operator_token in text] == []
    assert kept[1:7] == [served.url + "/", "", "[]", "[]", "[]", "null"]
    tab.page.get_by_role("button", name="Sign out").click()
    expect(tab.page.locator("#token")).to_be_focused()
    assert "Halden" not in tab.page.content()
    tab.sign_in().search("boiler")
    tab.page.reload()
    expect(tab.page.locator("#sign-in")).to_be_visible()
    assert "Halden" not in tab.page.content()


def test_one_question_is_answered_in_both_contracts_side_by_side(visit: Any, served: Any) -> None:
    from playwright.sync_api import expect

    tab = visit(served).sign_in().search("who serviced the boiler?")
    for contract in ("v2", "v1"):
        expect(tab.hits(contract).first).to_contain_text("memory/2026-03-04.md#L1-L3")
        expect(tab.hits(contract).first.locator(".excerpt")).to_contain_text("Halden and Sons")
        expect(tab.hits(contract).first.locator(".score")).to_have_text(re.compile(r"^[01]\.\d{3}$"))
    left, right = (tab.page.locator(f"#{contract}").bounding_box() for contract in ("v2", "v1"))
    assert left["x"] + left["width"] <= right["x"]
    assert abs(left["y"] - right["y"]) < 2
    expect(tab.page.locator("#v2 .facts")).to_contain_text("complete")
    expect(tab.page.locator("#v1 .facts")).to_contain_text("hybrid")
    marks = tab.hits().first.locator("mark").all_inner_texts()
    assert {mark.lower() for mark in marks} >= {"serviced", "boiler"}


def test_a_question_without_an_answer_says_so(visit: Any, served: Any) -> None:
    from playwright.sync_api import expect

    tab = visit(served).sign_in().search("xyzzyplugh", min_score="0.9")
    for contract in ("v2", "v1"):
        expect(tab.page.locator(f"#{contract} .facts")).to_contain_text("no hits")


def test_why_a_hit_came_is_what_explain_says(visit: Any, served: Any) -> None:
    from playwright.sync_api import expect

    tab = visit(served).sign_in().search("garage opener")
    first = tab.hits().first
    why = first.get_by_role("button", name=re.compile("^Why"))
    expect(why).to_have_attribute("aria-expanded", "false")
    with tab.page.expect_response("**/rpc/sidecar.explain") as answered:
        why.click()
    expect(why).to_have_attribute("aria-expanded", "true")
    parts = answered.value.json()["payload"]["hits"][0]["explain"]
    part = first.locator(".part").first
    expect(part).to_contain_text(f"{parts['text']:.3f} of what this query could attain")
    for name, factor in parts.items():
        if name not in ("text", "vector"):
            expect(part).to_contain_text(f"{name.capitalize()}× {factor:.3f}")
    why.click()
    expect(part).to_be_hidden()
    tab.hits("v1").first.get_by_role("button", name=re.compile("^Why")).click()
    expect(tab.hits("v1").first.locator(".part").first).to_contain_text("cosine with the query")


@pytest.mark.parametrize("contract", ["v2", "v1"])
def test_the_note_is_shown_around_a_hit_with_its_lines_and_further_ones_on_request(
    visit: Any, served: Any, contract: str
) -> None:
    from playwright.sync_api import expect

    tab = visit(served).sign_in().search("turn the boiler valve under the stairs")
    start, end = (int(n) for n in re.findall(r"L(\d+)", tab.labels(contract)[0]))
    lines = NOTES["memory/handbook.md"].split("\n")
    part = tab.open_note(1, contract)
    assert part.locator(".hit-line .number").all_inner_texts() == [str(n) for n in range(start, end + 1)]
    shown = part.locator(".hit-line .text").all_inner_texts()
    assert [text.strip() for text in shown] == lines[start - 1 : end]
    expect(part.locator(".line").first.locator(".number")).to_have_text(str(max(1, start - 6)))
    part.get_by_role("button", name="Earlier lines").click()
    expect(part.locator(".line").first.locator(".number")).to_have_text(str(max(1, start - 26)))
    numbers = [int(n) for n in part.locator(".number").all_inner_texts()]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    texts = [text.strip() for text in part.locator(".line .text").all_inner_texts()]
    assert texts == lines[numbers[0] - 1 : numbers[-1]]


def test_a_text_that_is_gone_is_said_and_never_another_shown(
    visit: Any, tmp_path: Path, launcher: Any
) -> None:
    from page_visit import wait_ready
    from playwright.sync_api import expect

    workspace = tmp_path / "notes"
    (workspace / "memory").mkdir(parents=True)
    note = workspace / "memory" / "fleeting.md"
    note.write_text("The lighthouse keeper is called Imre.\n")
    service = launcher.serve(workspace)
    wait_ready(service)
    tab = visit(service).sign_in().search("lighthouse keeper")
    note.write_text("Nothing of that kind.\n")
    first = tab.hits().first
    first.get_by_role("button", name=re.compile("^Note")).click()
    expect(first.locator(".part").nth(1)).to_contain_text("no longer in the note")
    expect(tab.page.locator("#search-status")).to_contain_text("The index has changed since this search")
    tab.page.get_by_role("button", name="Search again").click()
    expect(tab.page.locator("#v2 .facts")).to_contain_text(re.compile("no hits|1 hit"))
    assert "Imre" not in tab.page.content()
    tab.close()
    assert service.stop() == 0


def test_filters_hold_and_v1_says_which_it_does_not_have(visit: Any, served: Any) -> None:
    from playwright.sync_api import expect

    tab = visit(served).sign_in().search("boiler")
    everything = tab.labels()
    assert len(everything) >= 3
    tab.search("boiler", path="memory/2026-*.md")
    assert {label.split("#")[0] for label in tab.labels()} == {"memory/2026-03-04.md", "memory/2026-05-06.md"}
    expect(tab.page.locator("#v1 .said")).to_contain_text("v1 has no filter for path")
    assert len(tab.labels("v1")) >= 3
    expect(tab.page.locator("#filters-set")).to_have_text("1 set")
    tab.search("boiler", since="2026-05-01")
    assert {label.split("#")[0] for label in tab.labels()} == {"memory/2026-05-06.md"}
    tab.search("boiler", since="", until="2026-04-01")
    assert {label.split("#")[0] for label in tab.labels()} == {"memory/2026-03-04.md"}
    tab.page.get_by_role("button", name="Clear filters").click()
    expect(tab.page.locator("#filters-set")).to_have_text("")
    tab.search("boiler", max_chars="10")
    assert tab.labels() == everything[:1]
    expect(tab.page.locator("#v2 .said")).to_contain_text("max. characters is reached")
    tab.page.get_by_role("button", name="Clear filters").click()
    scores = sorted(float(text) for text in tab.search("boiler").page.locator("#v2 .score").all_inner_texts())
    tab.search("boiler", min_score=str((scores[-1] + scores[-2]) / 2))
    assert tab.labels() == everything[:1]
    expect(tab.page.locator("#v1 .said")).to_contain_text("whatever the minimum score")
    tab.page.get_by_role("button", name="Clear filters").click()
    tab.search("boiler", max_results="1")
    assert (len(tab.labels()), len(tab.labels("v1"))) == (1, 1)
    expect(tab.page.locator("#sources option[value=sessions]")).to_be_disabled()
    tab.search("boiler", sources="memory", max_results="2")
    first = tab.labels()
    tab.page.get_by_role("button", name="More hits").click()
    expect(tab.hits().nth(2)).to_be_visible()
    assert tab.labels()[:2] == first
    assert len(set(tab.labels())) == len(tab.labels())
    tab.hits().nth(2).get_by_role("button", name=re.compile("^Why")).click()
    expect(tab.hits().nth(2).locator(".part").first).to_contain_text("of what this query could attain")


def test_a_wrong_filter_is_said_at_its_field_or_in_the_column(visit: Any, served: Any) -> None:
    from playwright.sync_api import expect

    tab = visit(served).sign_in()
    tab.page.fill("#max-results", "0")
    tab.page.fill("#query", "boiler")
    tab.page.keyboard.press("Enter")
    assert tab.page.locator("#max-results").evaluate("(it) => it.validationMessage") != ""
    assert [url for url in tab.requests if "search" in url.rsplit("/", 1)[1] and "/rpc" in url] == []
    tab.page.fill("#max-results", "")
    tab.search("boiler")
    expect(tab.hits().first).to_be_visible()


def test_state_shows_health_index_watcher_embeddings_capabilities_and_the_token(
    visit: Any, served: Any
) -> None:
    from playwright.sync_api import expect

    tab = visit(served).sign_in().view("State")
    expect(tab.fact("Status")).to_have_text("ready")
    expect(tab.fact("Notes on disk")).to_have_text("4")
    expect(tab.fact("Indexed")).to_have_text("4")
    expect(tab.fact("Mode")).to_have_text(re.compile("events|polling"))
    expect(tab.fact("Search mode")).to_have_text("hybrid")
    expect(tab.fact("Corpora")).to_have_text("memory")
    expect(tab.fact("Candidates")).to_have_text("trigger, project")
    expect(tab.fact("Scopes")).to_have_text("operator.read")


def test_the_audit_shows_the_last_verdicts(visit: Any, served: Any) -> None:
    from playwright.sync_api import expect

    tab = visit(served).sign_in().search("boiler").view("Audit")
    row = tab.page.locator("tbody tr").filter(has_text="search").first
    expect(row).to_contain_text("allow")
    expect(row).to_contain_text("operator")
    expect(tab.fact("Allowed")).to_have_text(re.compile(r"^[1-9]\d*$"))


def test_a_token_of_one_agent_sees_that_agent_alone_and_no_audit(
    visit: Any, launcher: Any, tmp_path: Path
) -> None:
    from page_visit import wait_ready
    from playwright.sync_api import expect

    secrets = {"ALL_TOKEN": "a" * 32, "ONE_TOKEN": "b" * 32}
    for name, text in (("home", "The piano tuner is Ilona."), ("work", "The piano is in hall 3.")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "MEMORY.md").write_text(f"- {text}\n")
    config = tmp_path / "two.toml"
    config.write_text(
        f'[agents.home]\nworkspace = "{tmp_path}/home"\n'
        f'[agents.work]\nworkspace = "{tmp_path}/work"\nserve_v1 = false\n'
        '[[tokens]]\nname = "all"\nrole = "operator"\nsecret_env = "ALL_TOKEN"\n'
        '[[tokens]]\nname = "one"\nrole = "operator"\nsecret_env = "ONE_TOKEN"\nagents = ["work"]\n'
    )
    service = launcher.serve(None, "--config", str(config), environment=secrets)
    service.operator_token = secrets["ALL_TOKEN"]
    wait_ready(service)
    tab = visit(service).sign_in().search("piano")
    expect(tab.hits("v1").first).to_contain_text("Ilona")
    tab.page.locator("#agent").select_option("work")
    assert "Ilona" not in tab.page.content()
    expect(tab.pulse).to_contain_text("1 note")
    tab.search("piano")
    expect(tab.hits().first).to_contain_text("hall 3")
    expect(tab.page.locator("#v1 .said")).to_contain_text("v2 alone")
    one = visit(service).sign_in(secrets["ONE_TOKEN"])
    expect(one.page.locator("#agent")).to_be_hidden()
    expect(one.page.get_by_role("navigation").get_by_role("button", name="Audit")).to_be_hidden()
    one.search("piano")
    expect(one.hits().first).to_contain_text("hall 3")
    tab.close()
    one.close()
    assert service.stop() == 0
