"""One visit of the page in a real headless Chromium: what a person does, and what the browser did for it."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any, Self

from playwright.sync_api import BrowserContext, Locator, Page, Playwright, expect, sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESKTOP = {"width": 1280, "height": 860}
PHONE = {"width": 360, "height": 740}
PATIENCE_MS = 20_000
expect.set_options(timeout=PATIENCE_MS)


def program() -> str:
    """Chromium, which no test downloads."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    assert found, "the page's tests need Chromium: install the package `chromium`, or name it in CHROMIUM"
    return found


def wait_ready(service: Any, within: float = 30.0) -> None:
    """Until the first scan is indexed. The browser's driver owns this thread's event loop."""
    began = time.monotonic()
    while time.monotonic() - began < within:
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)
        try:
            connection.request("GET", "/readyz", headers=service.headers())
            if connection.getresponse().status == 200:
                return
        finally:
            connection.close()
    raise AssertionError("the service did not become ready")


class Browser:
    """Chromium with an empty profile, as a context manager."""

    def __init__(self, profile: Path) -> None:
        self._profile = profile
        self._driver: Any = None
        self._playwright: Playwright | None = None
        self._context: BrowserContext | None = None

    def __enter__(self) -> Self:
        self._driver = sync_playwright()
        self._playwright = self._driver.__enter__()
        self._context = self._playwright.chromium.launch_persistent_context(
            self._profile, executable_path=program(), headless=True, args=FLAGS, viewport=DESKTOP
        )
        return self

    def __exit__(self, *_: object) -> None:
        if self._context is not None:
            self._context.close()
        self._driver.__exit__(None, None, None)

    def visit(self, service: Any, **options: Any) -> Visit:
        """The page of a service in a tab of its own."""
        assert self._context is not None
        return Visit(self._context.new_page(), service, **options)


class Visit:
    """A tab with the page. Everything that it asks for, prints and raises is kept."""

    def __init__(
        self,
        page: Page,
        service: Any,
        *,
        phone: bool = False,
        dark: bool = False,
        clock: bool = False,
        may_log: str = r"(?!)",
    ) -> None:
        """`may_log`: what the console may show, such as the status of a request that must fail."""
        self.page = page
        self.service = service
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._may_log = re.compile(may_log)
        page.set_default_timeout(PATIENCE_MS)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("websocket", lambda socket: self.requests.append(socket.url))
        page.on("popup", lambda other: self.requests.append(f"popup {other.url}"))
        page.on("dialog", lambda dialog: (self.complaints.append("dialog"), dialog.dismiss()))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("console", lambda said: self._said(said.type, said.text))
        page.emulate_media(color_scheme="dark" if dark else "light")
        page.set_viewport_size(PHONE if phone else DESKTOP)  # type: ignore[arg-type]
        if clock:
            page.clock.install()
        page.goto(service.url + "/")

    def _said(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not self._may_log.search(text):
            self.complaints.append(f"{kind}: {text}")

    def close(self) -> None:
        self.page.close()

    def was_clean(self) -> None:
        """No error in the console, and no request but to the service, whose address never held a token."""
        assert self.complaints == []
        foreign = [url for url in self.requests if not url.startswith(self.service.url + "/")]
        assert foreign == []
        assert [url for url in self.requests if "?" in url or "#" in url] == []

    def sign_in(self, token: str | None = None) -> Visit:
        self.page.fill("#token", token or self.service.operator_token)
        self.page.keyboard.press("Enter")
        expect(self.page.locator("#query")).to_be_focused()
        expect(self.pulse).to_contain_text("note")
        return self

    def search(self, query: str, **filters: str) -> Visit:
        """Ask, and wait for both answers. Filters by the id of their field, `_` for `-`."""
        if filters:
            self.page.locator("#filters").evaluate("(it) => { it.open = true; }")
        for name, value in filters.items():
            field = self.page.locator(f"#{name.replace('_', '-')}")
            if field.evaluate("(it) => it.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(value)
        self.page.fill("#query", query)
        self.page.keyboard.press("Enter")
        for contract in ("v2", "v1"):
            expect(self.page.locator(f"#{contract}")).to_have_attribute("aria-busy", "false")
        return self

    def view(self, name: str) -> Visit:
        self.page.get_by_role("navigation").get_by_role("button", name=name).click()
        return self

    def hits(self, contract: str = "v2") -> Locator:
        return self.page.locator(f"#{contract} .hit")

    def labels(self, contract: str = "v2") -> list[str]:
        return self.page.locator(f"#{contract} .hit h3").all_inner_texts()

    def fact(self, name: str) -> Locator:
        """The value beside a name, in whatever card it stands."""
        exact = re.compile(rf"^{re.escape(name)}$")
        return self.page.locator("dl > div").filter(has=self.page.locator("dt", has_text=exact)).locator("dd")

    @property
    def pulse(self) -> Locator:
        return self.page.locator("#pulse-text")

    @property
    def notice(self) -> Locator:
        return self.page.locator("#notice")

    def open_note(self, rank: int = 1, contract: str = "v2") -> Locator:
        """The note around a hit, once it is read."""
        hit = self.hits(contract).nth(rank - 1)
        hit.get_by_role("button", name=re.compile("^Note")).click()
        part = hit.locator(".part").nth(1)
        expect(part.locator(".text").first).to_be_visible()
        return part
