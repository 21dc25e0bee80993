"""The page tells the truth while the service changes, hangs, ends, comes back, or takes the token away."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

AWAY = "ERR_CONNECTION|ERR_EMPTY_RESPONSE|ERR_SOCKET"


@pytest.fixture
def service(launcher: Any, workspace: Path) -> Iterator[Any]:
    """A service of the test's own over two notes."""
    from page_visit import wait_ready

    (workspace / "memory").mkdir()
    (workspace / "MEMORY.md").write_text("- The spare garage opener is in the blue tin.\n")
    (workspace / "memory" / "2026-03-04.md").write_text("Boiler serviced by Halden and Sons.\n")
    made = launcher.serve(workspace)
    wait_ready(made)
    yield made
    with contextlib.suppress(ProcessLookupError):
        os.kill(made.process.pid, signal.SIGCONT)


def see(tab: Any, state: str) -> None:
    """Tell the page that its tab came into sight or went out of it."""
    tab.page.evaluate(
        "(state) => { Object.defineProperty(document, 'visibilityState',"
        " { get: () => state, configurable: true });"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        state,
    )


def test_an_edit_shows_in_state_and_beside_the_search_without_a_touch(
    visit: Any, service: Any, workspace: Path
) -> None:
    from playwright.sync_api import expect

    tab = visit(service).sign_in().search("lantern").view("State")
    expect(tab.fact("Indexed")).to_have_text("2")
    (workspace / "memory" / "2026-03-05.md").write_text("The lantern hangs in the porch.\n")
    expect(tab.fact("Indexed")).to_have_text("3")
    expect(tab.fact("Notes on disk")).to_have_text("3")
    expect(tab.pulse).to_contain_text("3 notes")
    tab.view("Search")
    expect(tab.page.locator("#search-status")).to_contain_text("The index has changed since this search")
    tab.page.get_by_role("button", name="Search again").click()
    expect(tab.hits().first).to_contain_text("lantern hangs in the porch")
    tab.view("State")
    (workspace / "memory" / "2026-03-05.md").unlink()
    (workspace / "memory" / "outside.md").symlink_to("/etc/hostname")
    expect(tab.fact("Indexed")).to_have_text("2")
    row = tab.page.get_by_role("region", name="Skipped files").get_by_role("row").nth(1)
    expect(row).to_contain_text("memory/outside.md")


def test_nothing_is_asked_while_the_tab_is_out_of_sight(visit: Any, service: Any) -> None:
    tab = visit(service, clock=True).sign_in()

    def asked() -> int:
        return len([url for url in tab.requests if url.endswith("/rpc/memory.status")])

    for _ in range(3):
        with tab.page.expect_response("**/rpc/memory.status"):
            tab.page.clock.run_for(2000)
    see(tab, "hidden")
    before = asked()
    tab.page.clock.run_for(120_000)
    assert asked() == before
    with tab.page.expect_response("**/rpc/memory.status"):
        see(tab, "visible")
    assert asked() == before + 1


def test_a_restart_is_said_and_the_token_goes_on(
    visit: Any, service: Any, launcher: Any, workspace: Path
) -> None:
    from playwright.sync_api import expect

    tab = visit(service, may_log=AWAY).sign_in().search("boiler")
    assert service.stop() == 0
    expect(tab.pulse).to_have_text("not answering")
    expect(tab.notice).to_contain_text("The service cannot be reached.")
    expect(tab.hits().first).to_contain_text("Halden")
    tab.search("garage")
    for contract in ("v2", "v1"):
        expect(tab.page.locator(f"#{contract} .said")).to_contain_text("cannot be reached")
        expect(tab.hits(contract)).to_have_count(0)
    tab.view("State")
    expect(tab.page.locator("#view-state")).to_contain_text("the last that was known")
    again = launcher.serve(workspace, "--port", str(service.port))
    expect(tab.notice).to_contain_text("The service was restarted. The token still holds.", timeout=40_000)
    expect(tab.pulse).to_contain_text("2 notes")
    tab.view("Search").search("garage")
    expect(tab.hits().first).to_contain_text("blue tin")
    expect(tab.notice).to_be_hidden()
    tab.close()
    assert again.stop() == 0


def test_a_service_that_hangs_is_told_from_one_that_is_gone_and_a_search_can_be_given_up(
    visit: Any, service: Any
) -> None:
    from playwright.sync_api import expect

    tab = visit(service).sign_in().search("boiler")
    os.kill(service.process.pid, signal.SIGSTOP)
    tab.page.fill("#query", "garage")
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("#search-status")).to_contain_text(re.compile(r"Searching for \d+ s"))
    expect(tab.hits()).to_have_count(0)
    expect(tab.notice).to_contain_text("did not answer within 5 s")
    expect(tab.pulse).to_have_text("not answering")
    tab.page.locator("#query").press("Escape")
    for contract in ("v2", "v1"):
        expect(tab.page.locator(f"#{contract} .said")).to_contain_text("Cancelled")
    expect(tab.page.locator("#search-status")).to_have_text("")
    os.kill(service.process.pid, signal.SIGCONT)
    expect(tab.notice).to_contain_text("The service answers again.", timeout=40_000)
    tab.search("garage")
    expect(tab.hits().first).to_contain_text("blue tin")


def test_a_token_that_is_changed_ends_the_session_and_empties_the_page(visit: Any, service: Any) -> None:
    from playwright.sync_api import expect

    tab = visit(service, may_log="401").sign_in().search("boiler")
    expect(tab.hits().first).to_contain_text("Halden")
    (service.state / "operator.token").write_text("n" * 43 + "\n")
    expect(tab.page.locator("#sign-in-error")).to_contain_text("no longer accepted")
    expect(tab.page.locator("#token")).to_be_focused()
    assert "Halden" not in tab.page.content()
    tab.sign_in("n" * 43).search("boiler")
    expect(tab.hits().first).to_contain_text("Halden")


def test_only_the_last_of_two_quick_questions_is_answered(visit: Any, service: Any) -> None:
    from playwright.sync_api import expect

    tab = visit(service).sign_in()
    held: list[Any] = []

    def hold(route: Any) -> None:
        if '"boiler"' in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    tab.page.route("**/rpc/memory.search", hold)
    tab.page.fill("#query", "boiler")
    tab.page.keyboard.press("Enter")
    tab.search("garage")
    expect(tab.hits().first).to_contain_text("blue tin")
    assert len(held) == 2
    for route in held:
        route.continue_()
    tab.view("State")
    tab.view("Search")
    for contract in ("v2", "v1"):
        expect(tab.hits(contract).first).to_contain_text("blue tin")
        expect(tab.page.locator(f"#{contract}")).to_have_attribute("aria-busy", "false")
