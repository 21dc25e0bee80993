"""How fast a fresh service over generated notes is, held against floors measured in the same run.

The load comes from this process, the service runs in one of its own. Wall times depend on what else the
machine does; ratios and CPU times do so far less, and are what runs are to be compared by.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sidecar.benchmark.serving import OwnService, own_process
from sidecar.benchmark.speed_floor import Floor, measure_floor
from sidecar.benchmark.speed_load import (
    Connection,
    Load,
    ask,
    ask_at_once,
    cpu_seconds,
    quantile,
    resident_mb,
    size_mb,
)
from sidecar.benchmark.speed_notes import queries, write_notes
from sidecar.benchmark.speed_rows import Row, Rows
from sidecar.domain.errors import Unavailable

SEED = 5
CLIENTS = 8
RESULTS = 20
SEARCH = "/rpc/memory.search"
_POLL_SECONDS = 0.01
_LONGEST_WAIT = 600.0
_IDLE_SECONDS = 4.0
_IDLE_CPU = 0.25
_STALL = re.compile(rb"^memory_sidecar_loop_stall_longest_seconds (\S+)", re.MULTILINE)


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """How much is asked: searches of one kind, saved lines that are waited for, and edits of a busy hour."""

    searches: int = 300
    saves: int = 20
    edits: int = 120


async def measure_speed(notes: int, amount: Amount, seed: int = SEED) -> list[Row]:
    """Every figure for a corpus of so many notes, once. Raises `Unavailable` when the service fails."""
    rows = Rows(notes)
    asked = list(queries(seed, amount.searches))
    with tempfile.TemporaryDirectory(prefix="memory-sidecar-speed-") as directory:
        workspace, state = Path(directory) / "workspace", Path(directory) / "state"
        paths = await asyncio.to_thread(write_notes, workspace, notes, seed)
        floor = await asyncio.to_thread(measure_floor, paths, asked, seed)
        _floor_rows(rows, floor)
        began = time.perf_counter()
        async with own_process(workspace, state) as own:
            await asyncio.to_thread(_first_index, rows, own, began, floor)
            await asyncio.to_thread(_asked, rows, own, asked, floor)
            await asyncio.to_thread(_edited, rows, own, paths, amount)
            await asyncio.to_thread(_rebuilt, rows, own, asked)
        rows.amount("state on disk", size_mb(state), "MB", floor=size_mb(workspace))
        began = time.perf_counter()
        async with own_process(workspace, state) as own:
            await asyncio.to_thread(_warm_start, rows, own, began, asked)
    return rows.found


def _floor_rows(rows: Rows, floor: Floor) -> None:
    rows.milliseconds("floor: empty handler", floor.http, cpu=floor.http_cpu)
    rows.milliseconds("floor: Tantivy search", floor.words_search)
    rows.milliseconds("floor: hnswlib search", floor.vectors_search)
    rows.seconds("floor: read and hash", floor.read)
    rows.seconds("floor: Tantivy index", floor.words_build)
    rows.seconds("floor: hnswlib index", floor.vectors_build)


def _first_index(rows: Rows, own: OwnService, began: float, floor: Floor) -> None:
    """From nothing to everything found, measured from the start of the process."""
    pid = own.process.pid
    rows.seconds("ready line, empty state", time.perf_counter() - began)
    rows.amount("resident after start", resident_mb(pid), "MB")
    connection = Connection(own.url, own.secret)
    wait_ready(connection)
    rows.seconds("first index", time.perf_counter() - began, floor=floor.index, cpu=cpu_seconds(pid))
    rows.amount("resident after index", resident_mb(pid), "MB")
    rows.amount("resident at most while indexing", resident_mb(pid, peak=True), "MB")
    spent, began = cpu_seconds(pid), time.perf_counter()
    wait_idle(pid)
    rows.seconds("graph and merges after it", time.perf_counter() - began, cpu=cpu_seconds(pid) - spent)
    rows.amount("resident at rest", resident_mb(pid), "MB")
    connection.close()


def _asked(rows: Rows, own: OwnService, asked: Sequence[str], floor: Floor) -> None:
    """Searches of both versions, by one client and by several, then pages and reads."""
    pid = own.process.pid
    connections = [Connection(own.url, own.secret) for _ in range(CLIENTS)]
    one = connections[0]
    bodies = [_search(query) for query in asked]
    _latencies(rows, "search v2, cold", ask(one, SEARCH, bodies, pid=pid), floor)
    alone = ask(one, SEARCH, bodies, pid=pid)
    _latencies(rows, "search v2", alone, floor)
    v1 = [msgspec.json.encode({"query": query, "maxResults": RESULTS}) for query in asked]
    _latencies(rows, "search v1", ask(one, SEARCH, v1, pid=pid), floor)
    together = ask_at_once(connections, SEARCH, bodies, pid=pid)
    _latencies(rows, f"search v2, {CLIENTS} clients", together, floor)
    rows.amount("throughput, 1 client", alone.rate, "/s")
    rows.amount(f"throughput, {CLIENTS} clients", together.rate, "/s", floor=alone.rate)
    found, pages = _paged(one, asked, pid)
    _latencies(rows, "next page of 5", pages, floor, against=floor.http)
    references = [hits[0]["reference"] for page in found if (hits := _hits(page))]
    gets = [msgspec.json.encode({"version": 2, "reference": reference}) for reference in references]
    _latencies(rows, "get", ask(one, "/rpc/memory.get", gets, pid=pid), floor, against=floor.http)
    rows.amount("resident after searches", resident_mb(pid), "MB")
    for connection in connections:
        connection.close()


def _paged(connection: Connection, asked: Sequence[str], pid: int) -> tuple[list[dict[str, object]], Load]:
    """First pages of five with the load of the second ones, each asked for at once."""
    found, loads = [], []
    for query in asked:
        page = connection.call("memory.search", msgspec.json.decode(_page(query)))
        found.append(page)
        if "nextCursor" in page:
            loads.append(ask(connection, SEARCH, [_page(query, cursor=page["nextCursor"])], pid=pid))
    return found, Load(
        times=[time for load in loads for time in load.times],
        wall=sum(load.wall for load in loads),
        cpu=sum(load.cpu for load in loads),
    )


def _edited(rows: Rows, own: OwnService, paths: Sequence[Path], amount: Amount) -> None:
    """Lines that are saved and waited for, then as many edits as a busy hour brings."""
    pid = own.process.pid
    connection = Connection(own.url, own.secret)
    times = []
    spent = cpu_seconds(pid)
    for number in range(amount.saves):
        word = f"zyzzyva{number}q"
        body = msgspec.json.encode({"version": 2, "query": word, "maxResults": 1})
        _append(paths[(number * 7919) % len(paths)], f"- the {word} was saved just now\n")
        began = time.perf_counter()
        while word.encode() not in connection.post(SEARCH, body):
            _pause(began)
        times.append(time.perf_counter() - began)
    cpu = (cpu_seconds(pid) - spent) / amount.saves
    rows.milliseconds("saved line found, p50", quantile(times, 0.5), cpu=cpu)
    rows.milliseconds("saved line found, p95", quantile(times, 0.95))
    spent, began = cpu_seconds(pid), time.perf_counter()
    for number in range(amount.edits):
        _append(paths[(number * 104_729) % len(paths)], f"- edit number {number} of a busy hour\n")
        connection.call("sidecar.refresh", {})
    cpu = (cpu_seconds(pid) - spent) / amount.edits
    rows.milliseconds("one edit with its scan", (time.perf_counter() - began) / amount.edits, cpu=cpu)
    rows.amount("resident after edits", resident_mb(pid), "MB")
    connection.close()


def _rebuilt(rows: Rows, own: OwnService, asked: Sequence[str]) -> None:
    """Searches while everything is indexed anew, beside the same searches at rest."""
    pid = own.process.pid
    connection, other = Connection(own.url, own.secret), Connection(own.url, own.secret)
    bodies = [_search(query) for query in asked]
    idle = ask(connection, SEARCH, bodies, pid=pid)
    rebuild = threading.Thread(target=other.call, args=("sidecar.refresh", {"rebuild": True}))
    rebuild.start()
    times: list[float] = []
    while rebuild.is_alive():
        times += ask(connection, SEARCH, [bodies[len(times) % len(bodies)]], pid=pid).times
    rebuild.join()
    rows.milliseconds("search during a rebuild, p50", quantile(times, 0.5), floor=idle.quantile(0.5))
    rows.milliseconds("search during a rebuild, p99", quantile(times, 0.99))
    _, figures = connection.get("/metrics")
    stall = _STALL.search(figures)
    rows.milliseconds("longest stall of the event loop so far", float(stall[1]) if stall else 0.0)
    connection.close()
    other.close()


def _warm_start(rows: Rows, own: OwnService, began: float, asked: Sequence[str]) -> None:
    """A start over an index that is there already."""
    rows.seconds("warm start: ready line", time.perf_counter() - began)
    connection = Connection(own.url, own.secret)
    wait_ready(connection)
    pid = own.process.pid
    rows.seconds("warm start: index verified", time.perf_counter() - began, cpu=cpu_seconds(pid))
    rows.amount("resident after a warm start", resident_mb(pid), "MB")
    ask(connection, SEARCH, [_search(query) for query in asked], pid=pid)
    rows.amount("resident after its searches", resident_mb(pid), "MB")
    connection.close()


def _search(query: str, **more: object) -> bytes:
    return msgspec.json.encode({"version": 2, "query": query, "maxResults": RESULTS, **more})


def _page(query: str, **more: object) -> bytes:
    """A search for a small page, of whose ranking there is always a rest."""
    return msgspec.json.encode({"version": 2, "query": query, "maxResults": 5, "minScore": 0, **more})


def _hits(page: dict[str, object]) -> list[dict[str, object]]:
    hits = page["hits"]
    return hits if isinstance(hits, list) else []


def _latencies(rows: Rows, name: str, load: Load, floor: Floor, *, against: float | None = None) -> None:
    least = floor.search if against is None else against
    rows.milliseconds(f"{name}, p50", load.quantile(0.5), floor=least, cpu=load.cpu_each)
    rows.milliseconds(f"{name}, p95", load.quantile(0.95), floor=least)
    rows.milliseconds(f"{name}, p99", load.quantile(0.99), floor=least)


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line)


def wait_ready(connection: Connection) -> None:
    """Return when the first scan of every agent is indexed."""
    began = time.perf_counter()
    while connection.get("/readyz")[0] != 200:
        _pause(began)


def wait_idle(pid: int) -> None:
    """Return when the service did next to nothing for a while: what it puts off comes two seconds late."""
    began = time.perf_counter()
    spent = -_IDLE_CPU
    while cpu_seconds(pid) - spent >= _IDLE_CPU:
        spent = cpu_seconds(pid)
        time.sleep(_IDLE_SECONDS)
        if time.perf_counter() - began > _LONGEST_WAIT:
            raise Unavailable("the service did not come to rest in time")


def _pause(began: float) -> None:
    if time.perf_counter() - began > _LONGEST_WAIT:
        raise Unavailable("the service did not get there in time")
    time.sleep(_POLL_SECONDS)
