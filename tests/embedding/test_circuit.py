"""When a failing embedding service is asked again (spec §7)."""

from __future__ import annotations

import pytest

from sidecar.domain.errors import EmbeddingFailed
from sidecar.embedding.circuit import LONGEST_PAUSE_SECONDS, LONGEST_RETRY_AFTER_SECONDS, Circuit


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def middle(low: float, high: float) -> float:
    return (low + high) / 2


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def circuit(clock: Clock) -> Circuit:
    return Circuit(clock=clock, jitter=middle)


def fail(circuit: Circuit, error: EmbeddingFailed, *, probe: bool = False) -> None:
    circuit.failed(circuit.admit(probe=probe), error)


DOWN = EmbeddingFailed("down")


def test_one_failure_is_forgiven_and_two_in_a_row_open_it(circuit: Circuit) -> None:
    fail(circuit, DOWN)
    circuit.succeeded(circuit.admit(probe=False))
    fail(circuit, DOWN)
    assert circuit.state == "closed"
    assert circuit.reason is None
    fail(circuit, DOWN)
    assert (circuit.state, circuit.reason) == ("open", "down")
    with pytest.raises(EmbeddingFailed, match="down") as refused:
        circuit.admit(probe=False)
    assert refused.value.retry_after_ms == 1000


@pytest.mark.parametrize(
    ("error", "pause"),
    [
        (EmbeddingFailed("key", lasting=True), 30),
        (EmbeddingFailed("wait", retry_after_ms=7000), 7),
        (EmbeddingFailed("wait less than a pause", retry_after_ms=1), 1),
        (EmbeddingFailed("wait for a day", retry_after_ms=86_400_000), LONGEST_RETRY_AFTER_SECONDS),
    ],
)
def test_it_opens_at_once_where_asking_again_soon_is_useless(
    circuit: Circuit, error: EmbeddingFailed, pause: float
) -> None:
    fail(circuit, error)
    assert circuit.state == "open"
    assert circuit.due_in == pytest.approx(pause)


def test_only_a_probe_is_let_through_and_only_when_the_pause_is_over(circuit: Circuit, clock: Clock) -> None:
    fail(circuit, DOWN)
    fail(circuit, DOWN)
    for probe in (True, False):
        with pytest.raises(EmbeddingFailed):
            circuit.admit(probe=probe)
    clock.now += 1
    with pytest.raises(EmbeddingFailed):
        circuit.admit(probe=False)
    permit = circuit.admit(probe=True)
    assert circuit.state == "half-open"
    with pytest.raises(EmbeddingFailed):
        circuit.admit(probe=True)
    circuit.succeeded(permit)
    assert circuit.state == "closed"
    circuit.admit(probe=False)


def test_pauses_double_up_to_a_bound_and_begin_anew_after_a_success(circuit: Circuit, clock: Clock) -> None:
    fail(circuit, DOWN)
    fail(circuit, DOWN)
    pauses = []
    for _ in range(12):
        pauses.append(circuit.due_in)
        clock.now += circuit.due_in
        fail(circuit, DOWN, probe=True)
    assert pauses[:5] == [pytest.approx(2**n) for n in range(5)]
    assert pauses[-1] == pytest.approx(LONGEST_PAUSE_SECONDS)
    clock.now += circuit.due_in
    circuit.succeeded(circuit.admit(probe=True))
    fail(circuit, DOWN)
    fail(circuit, DOWN)
    assert circuit.due_in == pytest.approx(1)


def test_pauses_are_jittered() -> None:
    pauses = set()
    for _ in range(20):
        circuit = Circuit()
        fail(circuit, EmbeddingFailed("key", lasting=True))
        pauses.add(circuit.due_in)
    assert len(pauses) > 10
    assert all(20 < pause < 40 for pause in pauses)


def test_calls_from_before_it_opened_or_closed_do_not_count(circuit: Circuit, clock: Clock) -> None:
    late = [circuit.admit(probe=False) for _ in range(4)]
    fail(circuit, DOWN)
    fail(circuit, DOWN)
    pause = circuit.due_in
    circuit.succeeded(late[0])
    circuit.failed(late[1], DOWN)
    assert (circuit.state, circuit.due_in) == ("open", pause)
    clock.now += pause
    permit = circuit.admit(probe=True)
    circuit.failed(late[2], DOWN)
    assert circuit.state == "half-open"
    circuit.succeeded(permit)
    circuit.failed(late[3], EmbeddingFailed("key", lasting=True))
    assert circuit.state == "closed"


def test_a_probe_whose_caller_goes_away_leaves_the_way_free_for_another(
    circuit: Circuit, clock: Clock
) -> None:
    fail(circuit, EmbeddingFailed("key", lasting=True))
    clock.now += circuit.due_in
    circuit.released(circuit.admit(probe=True))
    circuit.succeeded(circuit.admit(probe=True))
    assert circuit.state == "closed"
