"""The load of the speed benchmark: kept-alive connections, latencies, and what a process spent."""

from __future__ import annotations

import http.client
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from sidecar.domain.errors import Unavailable

_TICKS = os.sysconf("SC_CLK_TCK")


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What some requests took: seconds each, seconds together, and CPU seconds of the process asked."""

    times: list[float]
    wall: float
    cpu: float

    def quantile(self, share: float) -> float:
        """The latency in seconds that this share of the requests stayed within."""
        return quantile(self.times, share)

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.times) / self.wall

    @property
    def cpu_each(self) -> float:
        """CPU seconds of the service for one request."""
        return self.cpu / len(self.times)


class Connection:
    """One kept-alive connection. Blocking."""

    def __init__(self, url: str, secret: str = "") -> None:
        address = urlsplit(url)
        self._http = http.client.HTTPConnection(address.hostname or "", address.port, timeout=600)
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {secret}"}

    def post(self, path: str, body: bytes) -> bytes:
        """The body of the answer; raises `Unavailable` unless it is 200."""
        self._http.request("POST", path, body, self._headers)
        answer = self._http.getresponse()
        data = answer.read()
        if answer.status != 200:
            raise Unavailable(f"{path}: the service answered {answer.status} {data[:300].decode()}")
        return data

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of an answer."""
        self._http.request("GET", path, headers=self._headers)
        answer = self._http.getresponse()
        return answer.status, answer.read()

    def call(self, method: str, params: object) -> dict[str, object]:
        """The payload of a method."""
        answer = msgspec.json.decode(self.post(f"/rpc/{method}", msgspec.json.encode(params)))
        payload: dict[str, object] = answer["payload"]
        return payload

    def close(self) -> None:
        """Close it."""
        self._http.close()


def ask(connection: Connection, path: str, bodies: Sequence[bytes], *, pid: int) -> Load:
    """Ask one after the other over one connection."""
    return ask_at_once([connection], path, bodies, pid=pid)


def ask_at_once(connections: Sequence[Connection], path: str, bodies: Sequence[bytes], *, pid: int) -> Load:
    """Ask over all connections at once, each its share of the bodies one after the other."""

    def share(number: int) -> list[float]:
        times = []
        for body in bodies[number :: len(connections)]:
            began = time.perf_counter()
            connections[number].post(path, body)
            times.append(time.perf_counter() - began)
        return times

    with ThreadPoolExecutor(len(connections)) as pool:
        spent, began = cpu_seconds(pid), time.perf_counter()
        shares = list(pool.map(share, range(len(connections))))
        wall = time.perf_counter() - began
    return Load(times=[t for times in shares for t in times], wall=wall, cpu=cpu_seconds(pid) - spent)


def cpu_seconds(pid: int) -> float:
    """What a process has spent in all its threads so far, in CPU seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_mb(pid: int, *, peak: bool = False) -> float:
    """What of a process lies in memory, in MB (10^6 bytes), now or at the most so far."""
    name = "VmHWM:" if peak else "VmRSS:"
    for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024 / 1e6
    raise Unavailable("the process is gone")


def size_mb(directory: Path) -> float:
    """What the files below a directory take on the disk, in MB."""
    return sum(path.lstat().st_blocks * 512 for path in directory.rglob("*")) / 1e6


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
