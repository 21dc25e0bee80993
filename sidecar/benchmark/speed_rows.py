"""The figures of the speed benchmark, each beside its floor where there is one, and the table of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one corpus. `ratio` is value by floor; `cpu` what the service spent on it, in `unit`.

    A ratio and a CPU time say more than a wall time on a machine that does other things.
    """

    notes: int
    name: str
    value: float
    unit: str
    floor: float | None = None
    ratio: float | None = None
    cpu: float | None = None
    label: str | None = None

    @property
    def column(self) -> str:
        """What was measured over, in words."""
        return self.label or f"{self.notes:,} notes"


class Rows:
    """Collects the figures of one run over one corpus."""

    def __init__(self, notes: int, *, label: str | None = None) -> None:
        self._notes = notes
        self._label = label
        self.found: list[Row] = []

    def milliseconds(
        self, name: str, seconds: float, *, floor: float | None = None, cpu: float | None = None
    ) -> None:
        """A latency; all in seconds."""
        self._add(name, 1000 * seconds, "ms", _thousand(floor), _thousand(cpu))

    def seconds(
        self, name: str, seconds: float, *, floor: float | None = None, cpu: float | None = None
    ) -> None:
        """A duration."""
        self._add(name, seconds, "s", floor, cpu)

    def amount(self, name: str, value: float, unit: str, *, floor: float | None = None) -> None:
        """Anything else."""
        self._add(name, value, unit, floor, None)

    def _add(self, name: str, value: float, unit: str, floor: float | None, cpu: float | None) -> None:
        self.found.append(
            Row(
                notes=self._notes,
                name=name,
                value=value,
                unit=unit,
                floor=floor,
                ratio=value / floor if floor else None,
                cpu=cpu,
                label=self._label,
            )
        )


def medians(runs: Sequence[Sequence[Row]]) -> list[Row]:
    """Each figure as the median of several runs, ratios as the median of the ratios."""
    return [
        msgspec.structs.replace(
            same[0],
            value=median(row.value for row in same),
            floor=_median(row.floor for row in same),
            ratio=_median(row.ratio for row in same),
            cpu=_median(row.cpu for row in same),
        )
        for same in zip(*runs, strict=True)
    ]


def table(rows: Sequence[Row]) -> str:
    """One line a figure."""
    lines = [f"{'notes':>7}  {'figure':<42}{'value':>11} {'':<5}{'floor':>10}{'ratio':>8}{'CPU':>10}"]
    lines += [
        f"{row.notes:>7}  {row.name:<42}{row.value:>11.2f} {row.unit:<5}"
        f"{_shown(row.floor, 10)}{_shown(row.ratio, 8)}{_shown(row.cpu, 10)}"
        for row in rows
    ]
    return "\n".join(lines)


def _shown(value: float | None, width: int) -> str:
    return f"{'-' if value is None else f'{value:.2f}':>{width}}"


def _thousand(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


def _median(values: Iterable[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return median(there) if there else None
