"""Whatever stands in a note or its name is text on the page: no markup, no link, nothing hidden."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.slow

NAMED = "<img src=x onerror=window.broken=1>"
HOSTILE = {
    "script": "zanzibar <script>window.broken=1;alert(1)</script>"
    "<img src=http://evil.example/x onerror=alert(2)>",
    "attribute": "quagmire \"'><svg onload=window.broken=1><style>*{display:none}</style>"
    "<base href=//evil.example>",
    "entity": "palimpsest &lt;b&gt;bold&lt;/b&gt; &amp; <b>bold</b> {{7*7}} ${7*7}",
    "link": "saxifrage [pay here](javascript:window.broken=1) and https://evil.example/?q=1 "
    "<a href=//evil.example>x</a>",
    "image": "oubliette ![pixel](http://evil.example/pixel.png) "
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "frame": "gallimaufry <iframe src=//evil.example></iframe>"
    "<form action=//evil.example><input name=token></form>",
}
BIDI = "susurrus granted \u202eforged\u202c after \u2067isolated\u2069 \u200fmark"
TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "ignore")
UNSEEN = f"borborygmus in\u200bvisible {TAGS} tags\u2060 end\ufeff"
ARABIC = "مفتاح المخزن عند الجار vestibule number 7"
EMOJI = "penumbra 👩\u200d👩\u200d👧 ❤\ufe0f می\u200cخواهم"


@pytest.fixture(scope="module")
def served(shared_launcher: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A service over notes that mean harm."""
    from page_visit import wait_ready

    workspace = tmp_path_factory.mktemp("workspace")
    folder = workspace / "memory"
    folder.mkdir()
    for name, text in HOSTILE.items():
        (folder / f"{name}.md").write_text(f"- {text}\n")
    (folder / f"{NAMED}.md").write_text("- floccinaucinihilipilification stands in a note with a bad name\n")
    (folder / "gnp.\u202edm.md").write_text("- absquatulate stands in a note whose name turns round\n")
    (folder / "bidi.md").write_text(f"- {BIDI}\n")
    (folder / "unseen.md").write_text(f"- {UNSEEN}\n")
    (folder / "arabic.md").write_text(f"{ARABIC}\n")
    (folder / "emoji.md").write_text(f"- {EMOJI}\n")
    words = "plain words " * 45_000
    line = f"{words} kakistocracy <b>deep</b> \u202e inside {words}"
    (folder / "endless.md").write_text(f"before\n{line}\nafter\n")
    (folder / "control.md").write_text("- defenestrate \x1b[31mred\x07 \x0b end\r\n- next\r\n")
    service = shared_launcher.serve(workspace)
    wait_ready(service, within=90)
    yield service
    assert service.stop() == 0


def assert_only_text(tab: Any) -> None:
    """In what the service gave there is no element but ours, and nothing of it ran or leads elsewhere."""
    found = tab.page.evaluate(
        "() => [...document.querySelectorAll('.hits, .part, #view-state, #view-audit')].flatMap("
        "(it) => [...it.querySelectorAll('*')]).map((it) => it.tagName.toLowerCase())"
    )
    ours = {
        *("li", "div", "span", "h2", "h3", "pre", "mark", "button", "p", "dl", "dt", "dd", "section"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }
    assert set(found) <= ours
    assert tab.page.evaluate("() => document.querySelectorAll('a:not(.skip), iframe, script').length") == 1
    assert tab.page.evaluate("() => window.broken") is None
    assert tab.page.locator("[style*=url], [onerror], [onload]").count() == 0


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_markup_links_and_images_in_a_note_are_its_text(visit: Any, served: Any, name: str) -> None:
    from playwright.sync_api import expect

    text = HOSTILE[name]
    tab = visit(served).sign_in().search(text.split()[0])
    for contract in ("v2", "v1"):
        expect(tab.hits(contract).first.locator(".excerpt")).to_have_text(f"- {text}")
        part = tab.open_note(1, contract)
        expect(part.locator(".hit-line .text")).to_have_text([f"- {text}"])
        tab.hits(contract).first.get_by_role("button", name=re.compile("^Why")).click()
        expect(tab.hits(contract).first.locator(".part").first).to_contain_text("of what this query could")
    assert_only_text(tab)


def test_a_name_of_a_note_is_text_too(visit: Any, served: Any) -> None:
    from playwright.sync_api import expect

    tab = visit(served).sign_in().search("floccinaucinihilipilification")
    for contract in ("v2", "v1"):
        expect(tab.hits(contract).first.locator("h3")).to_have_text(f"memory/{NAMED}.md#L1-L1")
        tab.open_note(1, contract)
    tab.search("absquatulate")
    for contract in ("v2", "v1"):
        expect(tab.hits(contract).first.locator("h3")).to_have_text("memory/gnp.U+202Edm.md#L1-L1")
        tab.open_note(1, contract)
    assert "\u202e" not in tab.page.locator("main").inner_text()
    assert_only_text(tab)


def test_a_hostile_query_is_text_wherever_it_comes_back(visit: Any, served: Any) -> None:
    tab = visit(served).sign_in()
    for query in (HOSTILE["script"], "(((", "[a-", "\\", "a" * 9000, "\u202e", "😀" * 300):
        tab.search(query)
        assert_only_text(tab)


def test_characters_that_turn_direction_are_shown_by_number_and_turn_nothing(visit: Any, served: Any) -> None:
    from playwright.sync_api import expect

    tab = visit(served).sign_in().search("susurrus")
    excerpt = tab.hits().first.locator(".excerpt")
    boxes = excerpt.locator(".hidden-character")
    expect(boxes).to_have_text(["U+202E", "U+202C", "U+2067", "U+2069", "U+200F"])
    expect(boxes.first).to_have_attribute("title", "right-to-left override")
    part = tab.open_note()
    for place in (excerpt, part.locator(".hit-line .text")):
        text = place.evaluate("(it) => it.textContent")
        assert not re.search("[\u200e\u200f\u202a-\u202e\u2066-\u2069]", text)
        left = place.evaluate(
            """(it) => {
                 const found = [];
                 const walk = document.createTreeWalker(it, NodeFilter.SHOW_TEXT);
                 for (let node = walk.nextNode(); node; node = walk.nextNode())
                   for (let at = 0; at < node.length; at += 1) {
                     const range = document.createRange();
                     range.setStart(node, at); range.setEnd(node, at + 1);
                     const box = range.getBoundingClientRect();
                     if (node.data[at].trim()) found.push([Math.round(box.top / 12), box.left]);
                   }
                 return found;
               }"""
        )
        rows: dict[int, list[float]] = {}
        for top, x in left:
            rows.setdefault(top, []).append(x)
        longest = max(rows.values(), key=len)
        assert longest == sorted(longest), "some letters stand before those that come first"


def test_what_cannot_be_seen_is_shown_and_what_scripts_need_stays(visit: Any, served: Any) -> None:
    from playwright.sync_api import expect

    tab = visit(served).sign_in().search("borborygmus")
    boxes = tab.hits().first.locator(".excerpt .hidden-character")
    expect(boxes.first).to_have_text("U+200B")
    expect(boxes.nth(1)).to_have_text("U+E0069 U+E0067 U+E006E and 3 more")
    tab.search("defenestrate")
    expect(tab.hits().first.locator(".excerpt .hidden-character").first).to_have_text("U+001B")
    assert "\r" not in tab.hits().first.locator(".excerpt").evaluate("(it) => it.textContent")
    tab.search("penumbra")
    expect(tab.hits().first.locator(".excerpt")).to_have_text(f"- {EMOJI}")
    expect(tab.hits().first.locator(".hidden-character")).to_have_count(0)
    tab.search("vestibule")
    excerpt = tab.hits().first.locator(".excerpt")
    expect(excerpt).to_have_text(ARABIC)
    box = excerpt.bounding_box()
    first = excerpt.evaluate(
        "(it) => { const range = document.createRange(); const node = it.firstChild; range.setStart(node, 0);"
        " range.setEnd(node, 1); return range.getBoundingClientRect().right; }"
    )
    assert first > box["x"] + box["width"] - 20, "a line that begins in Arabic begins at the right"


def test_a_line_of_a_megabyte_is_shown_in_part_and_widens_nothing(visit: Any, served: Any) -> None:
    from playwright.sync_api import expect

    tab = visit(served).sign_in().search("kakistocracy")
    for contract in ("v2", "v1"):
        expect(tab.hits(contract).first).to_contain_text("kakistocracy")
        tab.open_note(1, contract)
    assert "<b>deep</b>" in tab.hits().first.locator(".excerpt").inner_text()
    size = tab.page.evaluate("() => document.querySelector('main').textContent.length")
    assert size < 60_000
    width, inner = tab.page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
    assert width <= inner
    assert_only_text(tab)
