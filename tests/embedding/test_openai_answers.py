"""Answers of an embedding endpoint are believed only when they are whole and make sense (spec §7)."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sidecar.adapters.openai_answers import is_quota, read_answer

from sidecar.domain.errors import EmbeddingFailed


def answer(*vectors: Any, indexes: list[Any] | None = None, **more: object) -> bytes:
    places = list(range(len(vectors))) if indexes is None else indexes
    data = [{"embedding": v, "index": i} for v, i in zip(vectors, places, strict=True)]
    return json.dumps({"data": data, **more}).encode()


FAULTS = {
    "too few": (answer([1.0, 0]), "gave 1 vectors for 2 texts"),
    "too many": (answer([1.0], [1.0], [1.0]), "gave 3 vectors for 2 texts"),
    "repeated index": (answer([1.0], [2.0], indexes=[0, 0]), "gave vectors for some texts twice"),
    "index beyond": (answer([1.0], [2.0], indexes=[0, 2]), "gave vectors for some texts twice"),
    "index for one only": (answer([1.0], [2.0], indexes=[0, None]), "gave vectors for some texts twice"),
    "NaN": (answer([1.0, float("nan")], [1.0, 2.0]), "gave numbers that are not finite"),
    "infinite": (answer([1.0, float("inf")], [1.0, 2.0]), "gave numbers that are not finite"),
    "empty vectors": (answer([], []), "gave empty vectors"),
    "zeros": (answer([0.0, 0.0], [1.0, 0.0]), "gave a vector of zeros"),
    "one of another length": (answer([1.0, 2.0], [1.0]), "gave vectors of different lengths"),
    "strings for numbers": (answer(["1", "2"], ["1", "2"]), "gave something other than lists of numbers"),
    "null for a number": (answer([1.0, None], [1.0, 2.0]), "gave something other than lists of numbers"),
    "text that is no base64": (answer("!!", "!!"), "gave text instead of numbers"),
    "base64 of a part": (answer("AAA=", "AAA="), "gave text instead of numbers"),
    "an overflow": (b'{"data": [{"embedding": [1e999]}, {"embedding": [1]}]}', "lists of numbers"),
    "no data": (b'{"object": "list"}', "gave something other than lists of numbers"),
    "a web page": (b"\n<!doctype html><title>login</title>", "gave a web page instead of JSON"),
    "half of it": (answer([1.0, 2.0], [1.0, 2.0])[:30], "gave something other than JSON"),
    "nothing": (b"", "gave something other than JSON"),
    "not UTF-8": (b"\xff\xfe{}", "gave something other than JSON"),
    "endless nesting": (b'{"data":' + b"[" * 100_000, "the embedding endpoint gave"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_of_an_answer_is_refused_with_its_own_reason(fault: str) -> None:
    """BR-49; what of it comes right (another order) is below, a hang in test_openai_embeddings.py."""
    body, reason = FAULTS[fault]
    with pytest.raises(EmbeddingFailed, match="embedding endpoint") as refused:
        read_answer(body, count=2, dimensions=None)
    assert reason in refused.value.message
    assert refused.value.answered


def test_a_configured_length_is_insisted_on() -> None:
    body = answer([1.0, 2.0])
    assert read_answer(body, count=1, dimensions=2).matrix.shape == (1, 2)
    with pytest.raises(EmbeddingFailed, match="gives vectors of 2 numbers, not of 3 as configured"):
        read_answer(body, count=1, dimensions=3)


def test_vectors_are_placed_by_index_and_as_given_without_one() -> None:
    ordered = read_answer(answer([3.0, 0], [0, 5], indexes=[1, 0]), count=2, dimensions=None)
    assert ordered.matrix.tolist() == [[0, 1], [1, 0]]
    given = read_answer(answer([3.0, 0], [0, 5], indexes=[None, None]), count=2, dimensions=None)
    assert given.matrix.tolist() == [[1, 0], [0, 1]]


def test_base64_gives_the_same_vectors_as_numbers() -> None:
    packed = base64.b64encode(struct.pack("<3f", 1.5, -2.0, 0.25)).decode()
    from_text = read_answer(answer(packed), count=1, dimensions=None)
    from_numbers = read_answer(answer([1.5, -2.0, 0.25]), count=1, dimensions=None)
    assert np.array_equal(from_text.matrix, from_numbers.matrix)


def test_the_models_name_is_short_and_printable() -> None:
    named = read_answer(answer([1.0], model="a\nb" + "c" * 900), count=1, dimensions=None).model
    assert named is not None
    assert named.startswith("abc")
    assert len(named) == 200
    assert read_answer(answer([1.0]), count=1, dimensions=None).model is None


@given(
    st.integers(1, 5).flatmap(
        lambda width: st.lists(
            st.lists(st.floats(-1e30, 1e30).filter(lambda x: abs(x) > 1e-3), min_size=width, max_size=width),
            min_size=1,
            max_size=6,
        )
    ),
    st.randoms(use_true_random=False),
)
def test_whatever_the_order_rows_are_of_length_one_and_belong_to_their_texts(
    vectors: list[list[float]], random: Any
) -> None:
    order = list(range(len(vectors)))
    random.shuffle(order)
    body = answer(*[vectors[i] for i in order], indexes=order)
    matrix = read_answer(body, count=len(vectors), dimensions=None).matrix
    assert np.allclose(np.linalg.norm(matrix, axis=1), 1, atol=1e-5)
    expected = np.array(vectors) / np.linalg.norm(np.array(vectors), axis=1, keepdims=True)
    assert np.allclose(matrix, expected, atol=1e-5)


@given(st.one_of(st.binary(max_size=200), st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["data", "embedding", "index", "model", "x"]), inner, max_size=4
    ),
    max_leaves=12,
).map(lambda value: json.dumps(value).encode())), st.integers(1, 3))  # fmt: skip
def test_no_answer_whatever_breaks_anything_but_itself(body: bytes, count: int) -> None:
    try:
        found = read_answer(body, count=count, dimensions=None)
    except EmbeddingFailed:
        return
    assert found.matrix.shape[0] == count
    assert np.isfinite(found.matrix).all()


def test_a_used_up_account_is_told_from_a_passing_limit() -> None:
    assert is_quota(b'{"error": {"code": "insufficient_quota", "message": "m"}}')
    assert is_quota(b'{"error": {"type": "insufficient_quota", "code": null}}')
    for other in (b'{"error": {"code": "rate_limit_exceeded"}}', b'{"error": "quota"}', b"<html>", b""):
        assert not is_quota(other)
