"""The page for everybody: by keyboard alone, with enough contrast in both schemes, and on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

LONG_NAME = "memory/" + "a-name-that-has-no-place-to-break" * 4 + ".md"
NOTES = {
    "MEMORY.md": "- The spare garage opener is in the blue tin. <!-- importance: 7 --> "
    "<!-- trigger: garage; opener -->\n",
    "memory/2026-03-04.md": "Boiler serviced by Halden and Sons. The garage is cold. \u202e turned\n",
    LONG_NAME: "garage " + "x" * 600 + "\n",
    "memory/other.txt": "no note\n",
}
CONTRASTS = (Path(__file__).parent / "contrasts.js").read_text()
FOCUSED = """
() => {
  const it = document.activeElement;
  const style = getComputedStyle(it);
  return { name: it.id || it.getAttribute('aria-label') || it.textContent.trim().slice(0, 40),
           ring: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2, tag: it.tagName };
}
"""
INTERACTIVE = """
() => [...document.querySelectorAll('button, input, select, summary, [tabindex="0"]')]
  .filter((it) => it.checkVisibility({ visibilityProperty: true }) && !it.disabled)
  .map((it) => it.id || it.getAttribute('aria-label') || it.textContent.trim().slice(0, 40))
"""


@pytest.fixture(scope="module")
def served(shared_launcher: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A service over notes with long names and chips, one of them skipped."""
    from page_visit import wait_ready

    workspace = tmp_path_factory.mktemp("workspace")
    for name, text in NOTES.items():
        path = workspace / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (workspace / "memory" / "outside.md").symlink_to("/etc/hostname")
    service = shared_launcher.serve(workspace)
    wait_ready(service)
    yield service
    assert service.stop() == 0


def open_everything(tab: Any) -> None:
    """Both columns with an explanation and a note in each."""
    tab.search("garage", path="memory/*.md")
    for contract in ("v2", "v1"):
        tab.hits(contract).first.get_by_role("button", name=re.compile("^Why")).click()
        tab.open_note(1, contract)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_fields_and_marks_have_the_contrast_of_wcag_aa(visit: Any, served: Any, dark: bool) -> None:
    from playwright.sync_api import expect

    tab = visit(served, dark=dark, may_log="401")
    seen = []

    def look() -> None:
        answer = tab.page.evaluate(CONTRASTS)
        assert answer["poor"] == []
        seen.append(answer["looked"])

    tab.page.fill("#token", "x" * 20)
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("#sign-in-error")).not_to_be_empty()
    look()
    tab.sign_in()
    open_everything(tab)
    assert tab.page.locator("mark").count() > 0
    expect(tab.page.locator("#v1 .warning")).to_be_visible()
    look()
    tab.hits().first.hover()
    tab.hits().first.get_by_role("button", name=re.compile("^Why")).hover()
    look()
    tab.view("State")
    expect(tab.page.get_by_role("region", name="Skipped files")).to_be_visible()
    look()
    tab.view("Audit")
    expect(tab.page.locator(".verdict").first).to_be_visible()
    look()
    for kind in ("bad", "good", ""):
        tab.page.evaluate(
            "(kind) => { const it = document.getElementById('notice'); it.hidden = false;"
            " it.dataset.kind = kind; it.textContent = 'Something to say'; }",
            kind,
        )
        look()
    assert min(seen) > 5
    assert sum(seen) > 150


def test_the_schemes_differ_and_follow_the_system(visit: Any, served: Any) -> None:
    grounds = [
        visit(served, dark=dark).page.evaluate(
            "() => getComputedStyle(document.documentElement).backgroundColor"
        )
        for dark in (False, True)
    ]
    assert grounds[0] != grounds[1]


def test_everything_can_be_done_by_keyboard_alone(visit: Any, served: Any) -> None:
    from playwright.sync_api import expect

    tab = visit(served)
    keys = tab.page.keyboard
    expect(tab.page.locator("#token")).to_be_focused()
    keys.type(served.operator_token)
    keys.press("Enter")
    expect(tab.page.locator("#query")).to_be_focused()
    keys.type("garage")
    keys.press("Enter")
    expect(tab.hits("v1").first).to_be_visible()
    expect(tab.hits().first).to_be_visible()
    keys.press("ArrowDown")
    expect(tab.hits().first).to_be_focused()
    assert tab.page.evaluate(FOCUSED)["ring"]
    keys.press("e")
    expect(tab.hits().first.locator(".part").first).to_contain_text("of what this query could attain")
    keys.press("Enter")
    expect(tab.hits().first.locator(".part").nth(1)).to_contain_text("as it is on disk now")
    keys.press("ArrowDown")
    expect(tab.hits().nth(1)).to_be_focused()
    keys.press("ArrowRight")
    expect(tab.hits("v1").nth(1)).to_be_focused()
    keys.press("ArrowUp")
    keys.press("Tab")
    expect(tab.hits("v1").first.get_by_role("button", name=re.compile("^Why"))).to_be_focused()
    keys.press("Space")
    expect(tab.hits("v1").first.locator(".part").first).to_contain_text("cosine with the query")
    keys.press("Escape")
    expect(tab.page.locator("#query")).to_be_focused()
    keys.press("Shift+Tab")
    expect(tab.page.get_by_role("button", name="Sign out")).to_be_focused()
    keys.press("Shift+Tab")
    expect(tab.page.get_by_role("navigation").get_by_role("button", name="Audit")).to_be_focused()
    keys.press("Enter")
    expect(tab.page.locator("#view-audit")).to_be_visible()
    keys.press("/")
    expect(tab.page.locator("#query")).to_be_focused()
    expect(tab.page.locator("#view-search")).to_be_visible()
    keys.press("/")
    expect(tab.page.locator("#query")).to_have_value("/")


@pytest.mark.parametrize("view", ["Search", "State", "Audit"])
def test_every_control_is_reached_by_tab_and_shows_that_it_has_the_focus(
    visit: Any, served: Any, view: str
) -> None:
    tab = visit(served).sign_in()
    open_everything(tab)
    tab.view(view)
    if view == "Audit":
        tab.page.locator("#view-audit table").wait_for()
    wanted = set(tab.page.evaluate(INTERACTIVE))
    tab.page.evaluate("() => document.querySelector('.skip').focus()")
    reached: list[dict[str, Any]] = []
    for _ in range(120):
        tab.page.keyboard.press("Tab")
        now = tab.page.evaluate(FOCUSED)
        if now["tag"] == "BODY" and reached:
            break
        reached.append(now)
    assert wanted - {each["name"] for each in reached} == set()
    assert [each for each in reached if not each["ring"] and each["tag"] != "BODY"] == []


def test_every_control_and_region_has_a_name(visit: Any, served: Any) -> None:
    tab = visit(served).sign_in()
    open_everything(tab)
    for view in ("Search", "State", "Audit"):
        tab.view(view)
        nameless = tab.page.evaluate(
            """() => [...document.querySelectorAll('button, input, select, [role=region], section, nav, img')]
                 .filter((it) => it.checkVisibility()
                   && !(it.textContent.trim() && it.tagName === 'BUTTON') && !it.labels?.length
                   && !it.ariaLabel && !it.getAttribute('aria-labelledby') && !it.hasAttribute('alt')
                   && !it.classList.contains('panel')).map((it) => it.outerHTML.slice(0, 80))"""
        )
        assert nameless == []
    doubled = tab.page.evaluate(
        "() => { const ids = [...document.querySelectorAll('[id]')].map((it) => it.id);"
        " return ids.filter((id, at) => ids.indexOf(id) !== at); }"
    )
    assert doubled == []
    assert tab.page.evaluate("() => document.documentElement.lang") == "en"


@pytest.mark.parametrize("width", [320, 360, 412])
def test_on_a_phone_nothing_scrolls_sideways_and_controls_are_large_enough(
    visit: Any, served: Any, width: int
) -> None:
    tab = visit(served, phone=True)
    tab.page.set_viewport_size({"width": width, "height": 740})

    def fits() -> None:
        beyond = tab.page.evaluate(
            """() => [...document.querySelectorAll('body *')].filter((it) => it.checkVisibility()
                 && !it.closest('.scroller, .off-screen, .skip')
                 && it.getBoundingClientRect().right > innerWidth + 1)
                 .map((it) => `${it.tagName}.${it.className}`)"""
        )
        assert beyond == []
        assert tab.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        small = tab.page.evaluate(
            """() => [...document.querySelectorAll('button, input, select, summary')]
                 .filter((it) => it.checkVisibility())
                 .map((it) => [it.id || it.textContent.trim(), it.getBoundingClientRect()])
                 .filter(([, box]) => box.height < 24 || box.width < 24).map(([name]) => name)"""
        )
        assert small == []

    fits()
    tab.sign_in()
    open_everything(tab)
    fits()
    v2, v1 = (tab.page.locator(f"#{contract}").bounding_box() for contract in ("v2", "v1"))
    assert v1["y"] >= v2["y"] + v2["height"]
    for view in ("State", "Audit"):
        tab.view(view)
        fits()


def test_text_twice_as_large_still_fits(visit: Any, served: Any) -> None:
    tab = visit(served)
    tab.page.set_viewport_size({"width": 640, "height": 430})
    tab.page.evaluate("() => { document.documentElement.style.fontSize = '28px'; }")
    tab.sign_in()
    open_everything(tab)
    for view in ("Search", "State", "Audit"):
        tab.view(view)
        assert tab.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), view
