"""`GET /metrics` in the Prometheus text format: what counters and running parts know (spec §3, §4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

import msgspec

from sidecar.api.counters import Counters
from sidecar.service.timings import BOUNDS, Leg, Times

if TYPE_CHECKING:
    from prometheus_client.core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4"
_PREFIX = "memory_sidecar_"


class AgentFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How one agent's index stands. `on_disk` None: the first scan is still running.

    `lag_seconds` is how long changes have been waiting, `unembedded` counts passages without a vector.
    """

    on_disk: int | None
    indexed: int
    pending: int
    watching: Literal["events", "polling"]
    lag_seconds: float = 0.0
    unembedded: int = 0
    legs: Mapping[Leg, Times] = {}


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured at the moment of asking; stalls are of the event loop, in seconds.

    `allowed` and `denied` (by reason) are the decisions about access since the start.
    """

    agents: dict[str, AgentFigures]
    in_work: int
    stalls: int
    longest_stall: float
    allowed: int = 0
    denied: dict[str, int] = {}
    embedding_failures: int = 0
    embeddings_off: bool = False


class Exposition:
    """The page. The library that writes it is loaded when it is first asked for."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._figures: Figures | None = None

    def render(self, figures: Figures) -> bytes:
        """The text of one scrape."""
        from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

        self._figures = figures
        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(registry=registry)
        return generate_latest(registry)

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: names come with the figures."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Every family of ours."""
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        refusals = CounterMetricFamily(
            f"{_PREFIX}refusals", "Requests and connections refused at the door", labels=["reason"]
        )
        for reason, count in sorted(self._counters.refusals.items()):
            refusals.add_metric([reason], count)
        yield refusals
        calls = CounterMetricFamily(f"{_PREFIX}calls", "Calls that ended", labels=["method", "outcome"])
        for (method, outcome), count in sorted(self._counters.calls.items()):
            calls.add_metric([method, outcome], count)
        yield calls
        times = HistogramMetricFamily(f"{_PREFIX}call_seconds", "How long calls took", labels=["method"])
        for method, taken in sorted(self._counters.times.items()):
            times.add_metric([method], _buckets(taken), taken.total)
        yield times
        if self._figures is not None:
            yield from _gauges(self._figures)


def _buckets(taken: Times) -> list[tuple[str, float]]:
    bounds = [*(str(bound) for bound in BOUNDS), "+Inf"]
    return list(zip(bounds, map(float, accumulate(taken.buckets)), strict=True))


def _gauges(figures: Figures) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    yield CounterMetricFamily(
        f"{_PREFIX}embedding_failures", "Requests for vectors that failed", figures.embedding_failures
    )
    yield GaugeMetricFamily(
        f"{_PREFIX}embeddings_failing",
        "1 while searches do without vectors since these fail",
        float(figures.embeddings_off),
    )
    yield GaugeMetricFamily(f"{_PREFIX}calls_in_work", "Calls in work now", figures.in_work)
    yield CounterMetricFamily(
        f"{_PREFIX}loop_stalls", "Times that the event loop stood still for over 50 ms", figures.stalls
    )
    yield GaugeMetricFamily(
        f"{_PREFIX}loop_stall_longest_seconds", "The longest of them", figures.longest_stall
    )
    yield CounterMetricFamily(f"{_PREFIX}access_allowed", "Decisions that admitted", figures.allowed)
    denied = CounterMetricFamily(f"{_PREFIX}access_denied", "Decisions that refused", labels=["reason"])
    for reason, count in sorted(figures.denied.items()):
        denied.add_metric([reason], count)
    yield denied
    files = GaugeMetricFamily(
        f"{_PREFIX}files", "Files on disk, indexed, and waiting to be", labels=["agent", "state"]
    )
    polling = GaugeMetricFamily(
        f"{_PREFIX}watch_polling", "1 while changes are found by polling alone", labels=["agent"]
    )
    lag = GaugeMetricFamily(
        f"{_PREFIX}index_lag_seconds", "How long changes have been waiting to be indexed", labels=["agent"]
    )
    unembedded = GaugeMetricFamily(
        f"{_PREFIX}passages_waiting", "Passages that have no vector yet", labels=["agent"]
    )
    legs = HistogramMetricFamily(
        f"{_PREFIX}leg_seconds",
        "How long the parts of a search took: embedding, words, meaning, transcripts",
        labels=["agent", "leg"],
    )
    for agent_id, agent in sorted(figures.agents.items()):
        lag.add_metric([agent_id], agent.lag_seconds)
        unembedded.add_metric([agent_id], agent.unembedded)
        for leg, taken in sorted(agent.legs.items()):
            legs.add_metric([agent_id, leg], _buckets(taken), taken.total)
        if agent.on_disk is not None:
            files.add_metric([agent_id, "on_disk"], agent.on_disk)
        files.add_metric([agent_id, "indexed"], agent.indexed)
        files.add_metric([agent_id, "pending"], agent.pending)
        polling.add_metric([agent_id], float(agent.watching == "polling"))
    yield files
    yield polling
    yield lag
    yield unembedded
    yield legs
