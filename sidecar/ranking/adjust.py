"""Adjustments after fusion: recency, curated files, importance and project, each a mild factor (spec §7)."""

from __future__ import annotations

import math
from collections.abc import Collection

from sidecar.domain.corpus import Annotations
from sidecar.ranking.parameters import Parameters

MOST_IMPORTANT = 10

Adjustment = tuple[str, float]


def recency(age_days: int | None, parameters: Parameters) -> float:
    """`1 + recency * 2 ** (-age / half-life)`: never below 1, so an old note is never buried.

    Text without a date gets the full boost, as evergreen text does not age; a date in the future is today.
    """
    if age_days is None:
        return 1 + parameters.recency
    return float(1 + parameters.recency * 2.0 ** (-max(age_days, 0) / parameters.recency_half_life_days))


def importance(value: int | None) -> float:
    """`0.9 + 0.02 * importance` for 1 to 10, 1 without: importance 5 is neutral (U§11, milder)."""
    return 1.0 if value is None else 0.9 + 0.02 * value


def largest_factor(parameters: Parameters, *, projects: bool) -> float:
    """What the adjustments multiply a score by at most; `projects`: whether any project is active."""
    project = parameters.project if projects else 1.0
    factors = (recency(0, parameters), parameters.curated, importance(MOST_IMPORTANT), project)
    return math.prod(max(factor, 1.0) for factor in factors)


def adjustments(
    *,
    age_days: int | None,
    curated: bool,
    annotations: Annotations,
    active_projects: Collection[str],
    parameters: Parameters,
) -> tuple[Adjustment, ...]:
    """The named factors of one unit, without those that are 1."""
    factors: list[Adjustment] = [
        ("recency", recency(age_days, parameters)),
        ("curated", parameters.curated if curated else 1.0),
        ("importance", importance(annotations.importance)),
    ]
    if annotations.project_keys and active_projects:
        factors.append(("project", parameters.project))
    return tuple((name, factor) for name, factor in factors if factor != 1.0)
