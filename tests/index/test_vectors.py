"""Vector rows: exact answers, the graph's answers, filters, removals and renewal."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sidecar.index.vector_base import build_base, load_base
from sidecar.index.vectors import VectorRows, VectorSnapshot, live_rows

DIMENSIONS = 24


class Model:
    name = "m"
    dimensions = DIMENSIONS


MODEL = Model()


def unit_rows(count: int, seed: int = 0) -> NDArray[np.float32]:
    """Vectors in clusters, as text makes them."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((12, DIMENSIONS))
    rows = centres[rng.integers(0, 12, count)] + 0.5 * rng.standard_normal((count, DIMENSIONS))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def filled(matrix: NDArray[np.float32], crossover: int = 10_000) -> VectorRows:
    rows = VectorRows(DIMENSIONS, crossover=crossover)
    for start in range(0, len(matrix), 70):
        part = matrix[start : start + 70]
        rows.append([(start + n, n, n + 1) for n in range(len(part))], part)
    return rows


def with_graph(rows: VectorRows, directory: Path) -> VectorRows:
    seen = rows.snapshot()
    kept = live_rows(seen)
    pieces = [seen.vectors(kept)]
    base = build_base(directory, "store", MODEL, seen.numbers[kept], pieces, threading.Event())
    assert base is not None
    return rows.renewed(seen, kept, base)


def documents(snapshot: VectorSnapshot, rows: NDArray[np.int64]) -> list[int]:
    return snapshot.document_id[rows].tolist()


def brute_force(
    matrix: NDArray[np.float32], query: NDArray[np.float32], limit: int, allowed: set[int]
) -> list[int]:
    scores = matrix.astype(np.float64) @ query.astype(np.float64)
    return sorted(allowed, key=lambda n: (-scores[n], n))[:limit]


@settings(max_examples=30)
@given(
    count=st.integers(1, 400),
    limit=st.integers(1, 60),
    removed=st.sets(st.integers(0, 399), max_size=100),
    only=st.none() | st.sets(st.integers(0, 399), max_size=100),
    seed=st.integers(0, 50),
)
def test_exact_search_gives_the_nearest_live_allowed_rows_and_prefixes_of_them(
    count: int, limit: int, removed: set[int], only: set[int] | None, seed: int
) -> None:
    matrix = unit_rows(count, seed)
    rows = filled(matrix)
    rows.remove(removed)
    snapshot = rows.snapshot()
    allowed = set(range(count)) - removed
    if only is not None:
        allowed &= only
    query = unit_rows(1, seed + 1000)[0]
    found, scores = snapshot.search(query, limit, only)
    assert documents(snapshot, found) == brute_force(matrix, query, limit, allowed)
    assert scores == pytest.approx(matrix[documents(snapshot, found)] @ query, abs=1e-5)
    fewer, _ = snapshot.search(query, max(1, limit // 2), only)
    assert fewer.tolist() == found[: max(1, limit // 2)].tolist()


def test_equal_vectors_come_in_row_order_whatever_the_limit() -> None:
    snapshot = filled(np.tile(unit_rows(1), (50, 1))).snapshot()
    for limit in (1, 7, 49, 50, 500):
        assert snapshot.search(unit_rows(1)[0], limit)[0].tolist() == list(range(min(limit, 50)))


def test_a_snapshot_keeps_its_rows_while_others_come_and_go() -> None:
    matrix = unit_rows(300)
    rows = filled(matrix[:200])
    before = rows.snapshot()
    rows.remove(range(100))
    rows.append([(n, 0, 0) for n in range(200, 300)], matrix[200:])
    assert before.count == 200
    assert rows.snapshot().count == 200
    assert documents(before, before.search(matrix[50], 1)[0]) == [50]
    assert documents(rows.snapshot(), rows.snapshot().search(matrix[250], 1)[0]) == [250]
    assert documents(rows.snapshot(), rows.snapshot().search(matrix[50], 1)[0]) != [50]


def test_the_graph_agrees_with_exact_search(tmp_path: Path) -> None:
    matrix = unit_rows(1500)
    exact = filled(matrix).snapshot()
    graph = with_graph(filled(matrix, crossover=50), tmp_path).snapshot()
    assert graph.uses_graph
    agreed = 0
    for query in unit_rows(30, seed=9):
        wanted, scores = exact.search(query, 20)
        found, near = graph.search(query, 20)
        assert near.max() == pytest.approx(scores.max(), abs=1e-6)
        agreed += len(set(documents(exact, wanted)) & set(documents(graph, found)))
    assert agreed >= 0.97 * 20 * 30


@pytest.mark.parametrize("limit", [1, 50, 1200, 5000])
def test_the_graph_gives_as_many_rows_as_are_left_and_never_a_removed_one(tmp_path: Path, limit: int) -> None:
    matrix = unit_rows(1200)
    rows = with_graph(filled(matrix, crossover=50), tmp_path)
    removed = set(range(0, 1200, 3))
    rows.remove(removed)
    rows.append([(2000, 0, 0)], matrix[:1])
    snapshot = rows.snapshot()
    found = documents(snapshot, snapshot.search(matrix[0], limit)[0])
    assert len(found) == len(set(found)) == min(limit, 801)
    assert not removed & set(found)
    assert found[0] == 2000


def test_a_filter_over_the_graph_is_exact_for_few_and_full_for_many(tmp_path: Path) -> None:
    matrix = unit_rows(1200)
    snapshot = with_graph(filled(matrix, crossover=100), tmp_path).snapshot()
    query = unit_rows(1, seed=4)[0]
    few = set(range(0, 1200, 20))
    assert documents(snapshot, snapshot.search(query, 10, few)[0]) == brute_force(matrix, query, 10, few)
    many = set(range(0, 1200, 2))
    found = documents(snapshot, snapshot.search(query, 40, many)[0])
    assert len(found) == 40
    assert set(found) <= many
    assert found[0] == brute_force(matrix, query, 1, many)[0]


def test_what_changed_while_the_graph_was_built_is_carried_over(tmp_path: Path) -> None:
    matrix = unit_rows(400)
    rows = filled(matrix[:300], crossover=50)
    rows.remove([5])
    assert rows.wants_renewal
    seen = rows.snapshot()
    kept = live_rows(seen)
    base = build_base(tmp_path, "s", MODEL, seen.numbers[kept], [seen.vectors(kept)], threading.Event())
    rows.remove([7, 8])
    rows.append([(n, 1, 2) for n in range(300, 330)], matrix[300:330])
    rows.remove([310])
    renewed = rows.renewed(seen, kept, base)
    assert not renewed.wants_renewal or len(kept) < 330
    snapshot = renewed.snapshot()
    live = set(range(330)) - {5, 7, 8, 310}
    assert set(documents(snapshot, snapshot.search(matrix[0], 1000)[0])) == live
    assert snapshot.count == len(live)
    for number in live:
        assert documents(snapshot, snapshot.search(matrix[number], 1)[0]) == [number]


def test_a_graph_is_renewed_after_a_tenth_and_given_up_for_few(tmp_path: Path) -> None:
    matrix = unit_rows(700)
    rows = with_graph(filled(matrix[:600], crossover=100), tmp_path)
    assert not rows.wants_renewal
    rows.append([(n, 0, 0) for n in range(600, 640)], matrix[600:640])
    assert not rows.wants_renewal
    rows.remove(range(25))
    assert rows.wants_renewal
    rows.remove(range(25, 560))
    assert rows.wants_renewal
    assert not rows.wants_graph
    seen = rows.snapshot()
    plain = rows.renewed(seen, live_rows(seen), None)
    assert not plain.snapshot().uses_graph
    assert not plain.has_dead
    assert documents(plain.snapshot(), plain.snapshot().search(matrix[639], 1)[0]) == [639]


def test_a_stored_graph_answers_as_the_one_that_was_built(tmp_path: Path) -> None:
    matrix = unit_rows(600)
    built = with_graph(filled(matrix, crossover=50), tmp_path).snapshot()
    base = load_base(tmp_path, "store", MODEL, 10**9)
    loaded = VectorRows(DIMENSIONS, crossover=50, base=base).snapshot()
    for query in unit_rows(5, seed=2):
        assert loaded.search(query, 30)[0].tolist() == built.search(query, 30)[0].tolist()


def test_a_build_that_is_told_to_stop_leaves_the_stored_graph_alone(tmp_path: Path) -> None:
    rows = with_graph(filled(unit_rows(200), crossover=50), tmp_path)
    stop = threading.Event()
    stop.set()
    snapshot = rows.snapshot()
    assert build_base(tmp_path, "store", MODEL, snapshot.numbers, [unit_rows(200)], stop) is None
    base = load_base(tmp_path, "store", MODEL, 10**9)
    assert base is not None
    assert base.size == 200
