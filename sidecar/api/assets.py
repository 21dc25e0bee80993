"""The page at `/` and its files (spec §3): no data is in them, so they need no token.

They are read once and served from memory under fixed names, so no path of a request ever reaches a folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

from aiohttp import hdrs, web

from sidecar.domain.errors import RouteNotFound

PAGE_PATH = "/"
ASSET_ROUTE = "/page/{name}"
START = "index.html"
ASSETS: Mapping[str, str] = {
    "page.css": "text/css",
    "icon.svg": "image/svg+xml",
    "page.js": "text/javascript",
    "audit.js": "text/javascript",
    "calls.js": "text/javascript",
    "elements.js": "text/javascript",
    "hits.js": "text/javascript",
    "inert.js": "text/javascript",
    "live.js": "text/javascript",
    "note.js": "text/javascript",
    "search.js": "text/javascript",
    "state.js": "text/javascript",
}
"""Every file that the page loads, with its type."""
PAGE_PATHS = frozenset({PAGE_PATH, *(ASSET_ROUTE.format(name=name) for name in ASSETS)})

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # No string ever becomes markup or code, not even by a mistake of ours.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # After an upgrade no old module meets a new one, and no browser keeps the page with a token in it.
    hdrs.CACHE_CONTROL: "no-store",
}


class Assets:
    """The page's files in memory, and the two handlers that give them."""

    def __init__(self) -> None:
        folder = resources.files("sidecar.api") / "page"
        self._start = (folder / START).read_bytes()
        self._files = {name: (folder / name).read_bytes() for name in ASSETS}

    async def page(self, _request: web.Request) -> web.Response:
        """`GET /`."""
        return _response(self._start, "text/html")

    async def asset(self, request: web.Request) -> web.Response:
        """`GET /page/{name}`; raises `RouteNotFound`."""
        name = request.match_info["name"]
        if name not in self._files:
            raise RouteNotFound("no such route")
        return _response(self._files[name], ASSETS[name])


def _response(body: bytes, content_type: str) -> web.Response:
    return web.Response(body=body, content_type=content_type, charset="utf-8", headers=HEADERS)
