"""The README's table of what was measured: a column a corpus, each figure with how often its floor it is."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from sidecar.benchmark.speed_rows import Row

# What the table says, in its order: the figure's name in `speed`, and in the README.
SHOWN = {
    "first index": "first index, from the start of the process",
    "ready line, empty state": "ready line, nothing indexed yet",
    "warm start: ready line": "ready line of a warm start",
    "warm start: index verified": "every file of a warm start verified",
    "search v2, p50": "`memory.search` v2, 20 results, p50",
    "search v2, p99": "the same, p99",
    "search v2, cold, p50": "the same, never asked before, p50",
    "search v1, p50": "`memory.search` v1, 20 results, p50",
    "throughput, 1 client": "searches a second, one client",
    "throughput, 8 clients": "searches a second, eight clients, by one client's",
    "next page of 5, p50": "next page of 5, p50",
    "get, p50": "`memory.get`, p50",
    "saved line found, p50": "saved line found, p50",
    "saved line found, p95": "saved line found, p95",
    "one edit with its scan": "one edit with a scan of everything",
    "search during a rebuild, p50": "search while all is indexed anew, p50, by its value at rest",
    "longest stall of the event loop so far": "longest stall of the event loop, that rebuild included",
    "resident after index": "resident after the first index",
    "resident at rest": "resident at rest",
    "resident after edits": "resident after searches and edits",
    "resident after a warm start": "resident after a warm start",
    "state on disk": "state on disk, by the size of the notes",
    "first index of all agents": "first index of all agents, by that of one agent with all notes",
    "resident with all agents": "resident with all agents, by that of one agent with all notes",
}
_PLACES = ((10, 2), (100, 1))
_LIBRARIES = ("aiohttp", "hnswlib", "numpy", "tantivy")


def readme_table(rows: Sequence[Row], runs: int) -> str:
    """Markdown: when and on what, then the table. Figures that were not measured for a corpus stay empty."""
    columns = list(dict.fromkeys(row.column for row in rows))
    found = {(row.column, row.name): row for row in rows}
    lines = [_circumstances(runs), "", f"| | {' | '.join(columns)} |", "|---" + "|--:" * len(columns) + "|"]
    for name, title in SHOWN.items():
        cells = [found.get((column, name)) for column in columns]
        if any(cells):
            lines.append(f"| {title} | {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines)


def _circumstances(runs: int) -> str:
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    measured = f"medians of {runs} runs" if runs > 1 else "one run"
    machine = f"{os.cpu_count()} cores, {_memory_gb():.0f} GB, {platform.system()} {platform.machine()}"
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {machine}, Python {platform.python_version()}, {libraries}; "
        f"{measured}.\nIn brackets: how often the floor of the same run, or what the row names."
    )


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    ratio = f" ({_digits(row.ratio)}x)" if row.ratio is not None else ""
    return f"{_digits(row.value)} {row.unit}{ratio}"


def _digits(value: float) -> str:
    """Three digits, but never fewer than those before the point."""
    for bound, places in _PLACES:
        if value < bound:
            return f"{value:.{places}f}"
    return f"{value:,.0f}"
