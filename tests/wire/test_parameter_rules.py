"""The rule tables give upstream's order and words (U§2, U§3)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.domain.errors import InvalidRequest, SidecarError
from sidecar.wire import javascript, params
from sidecar.wire.frames import BadFrame, decode_request

V1_NUMBERS = "maxResults and minScore must be finite numbers when provided"
V1_CASES = [
    ({"version": 3}, "unsupported memory version"),
    ({"version": "2", "query": "x"}, "unsupported memory version"),
    ({"version": None, "query": "x"}, "unsupported memory version"),
    ({"version": True, "query": "x"}, "unsupported memory version"),
    ({"version": 1.5, "query": ""}, "unsupported memory version"),
    ({}, "query must be a non-empty string"),
    ({"query": None}, "query must be a non-empty string"),
    ({"query": " \t\n\ufeff"}, "query must be a non-empty string"),
    ({"query": ["x"]}, "query must be a non-empty string"),
    ({"query": "", "maxResults": "3"}, "query must be a non-empty string"),
    ({"query": "x", "maxResults": "3"}, V1_NUMBERS),
    ({"query": "x", "maxResults": None}, V1_NUMBERS),
    ({"query": "x", "maxResults": True}, V1_NUMBERS),
    ({"query": "x", "minScore": None}, V1_NUMBERS),
    ({"query": "x", "minScore": "0.2x", "agentId": 5}, V1_NUMBERS),
    ({"query": "x", "agentId": None}, "agentId must be a string"),
    ({"query": "x", "agentId": 7}, "agentId must be a string"),
]
V2_CASES = [
    ({"version": 2}, "query must be a non-empty string"),
    ({"version": 2.0, "query": "  "}, "query must be a non-empty string"),
    *[
        ({"version": 2, "query": "x", "maxResults": value}, "maxResults must be a positive integer")
        for value in (0, -1, 2.5, None, "3", "4abc", True)
    ],
    ({"version": 2, "query": "x", "minScore": "0.2"}, "minScore must be a finite number"),
    ({"version": 2, "query": "x", "minScore": None, "cursor": ""}, "minScore must be a finite number"),
    ({"version": 2, "query": "x", "cursor": " "}, "cursor must be a non-empty string"),
    ({"version": 2, "query": "x", "cursor": 1, "sources": []}, "cursor must be a non-empty string"),
    *[
        (
            {"version": 2, "query": "x", "sources": value},
            "sources must be a non-empty array of memory or sessions",
        )
        for value in ([], "memory", None, {})
    ],
    *[
        ({"version": 2, "query": "x", "sources": value}, "sources must contain only memory or sessions")
        for value in (["notes"], ["memory", 1], [None], [["memory"]])
    ],
    (
        {"version": 2, "query": "x", "sources": ["no"], "agentId": ""},
        "sources must contain only memory or sessions",
    ),
    ({"version": 2, "query": "x", "agentId": " "}, "agentId must be a non-empty string"),
    ({"version": 2, "query": "x", "agentId": None}, "agentId must be a non-empty string"),
]
BOTH = "reference.providerId and reference.id are required"
GET_CASES = [
    *[
        ({"reference": value}, "reference must be a provider-scoped memory reference")
        for value in (None, [], "x", 1)
    ],
    ({}, "reference must be a provider-scoped memory reference"),
    ({"reference": {"providerId": "", "id": ""}}, "reference.providerId must be a non-empty string"),
    ({"reference": {"providerId": 1, "id": "a"}}, "reference.providerId must be a non-empty string"),
    ({"reference": {"providerId": "p", "id": None}}, "reference.id must be a non-empty string"),
    ({"reference": {}}, BOTH),
    ({"reference": {"providerId": "p"}}, BOTH),
    ({"reference": {"id": "a", "revision": ""}}, BOTH),
    (
        {"reference": {"providerId": "p", "id": "a", "revision": "", "fragment": ""}},
        "reference.revision must be a non-empty string",
    ),
    (
        {"reference": {"providerId": "p", "id": "a", "fragment": 3}},
        "reference.fragment must be a non-empty string",
    ),
    ({"reference": {"providerId": "p", "id": "a"}, "from": 0, "lines": 0}, "from must be a positive integer"),
    ({"reference": {"providerId": "p", "id": "a"}, "lines": 1.5}, "lines must be a positive integer"),
    ({"reference": {"providerId": "p", "id": "a"}, "agentId": ""}, "agentId must be a non-empty string"),
]


@pytest.mark.parametrize(("given_params", "message"), V1_CASES + V2_CASES)
def test_the_first_broken_search_rule_gives_its_exact_message(
    given_params: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        params.search(given_params)
    assert caught.value.message == message


@pytest.mark.parametrize(("given_params", "message"), GET_CASES)
def test_the_first_broken_get_rule_gives_its_exact_message(
    given_params: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        params.get(given_params)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("asked", "clamped"), [(0, 1), (-5, 1), (2.9, 2), (999, 50), (1e308, 50), (10**300, 50), (20, 20)]
)
def test_v1_floors_and_clamps_the_number_of_results(asked: float, clamped: int) -> None:
    decoded = params.search({"query": "x", "maxResults": asked})
    assert isinstance(decoded, params.SearchV1)
    assert decoded.max_results == clamped


def test_v2_takes_whole_floats_as_integers_and_caps_at_fifty() -> None:
    decoded = params.search({"version": 2, "query": "x", "maxResults": 3.0})
    assert isinstance(decoded, params.SearchV2)
    assert decoded.request.max_results == 3
    capped = params.search({"version": 2, "query": "x", "maxResults": 1_000_000_000})
    assert isinstance(capped, params.SearchV2)
    assert capped.request.max_results == 50


def test_defaults_are_twenty_results_and_every_unknown_parameter_is_ignored() -> None:
    v1 = params.search({"query": " x ", "lexicalOnly": 5, "nonsense": None})
    v2 = params.search({"version": 2, "query": " x ", "activeProjectKeys": 5})
    assert isinstance(v1, params.SearchV1)
    assert isinstance(v2, params.SearchV2)
    assert (v1.query, v1.max_results, v1.min_score) == ("x", 20, None)
    assert (v2.request.query, v2.request.max_results, v2.request.sources) == ("x", 20, None)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(
    [
        "version",
        "query",
        "maxResults",
        "minScore",
        "cursor",
        "sources",
        "agentId",
        "reference",
        "from",
        "lines",
    ]
)


@given(st.dictionaries(keys, json_values, max_size=8))
def test_whatever_the_parameters_are_decoding_gives_a_request_or_a_declared_error(
    value: dict[str, object],
) -> None:
    for decode in (params.search, params.get, params.status):
        try:
            decode(value)
        except SidecarError as error:
            assert error.code == "INVALID_REQUEST"


@given(st.binary(max_size=60) | json_values.map(msgspec.json.encode))
def test_whatever_the_body_is_a_frame_decodes_or_is_a_bad_frame(body: bytes) -> None:
    try:
        frame = decode_request(body)
    except BadFrame as error:
        assert error.message.startswith("invalid request frame: ")
    else:
        assert frame.id
        assert frame.method


@pytest.mark.parametrize("number", [2**53, 2**64 - 1, 2**64, 1e30, 1e300])
def test_a_whole_number_too_large_to_count_anything_stands_for_the_largest_one(number: float) -> None:
    assert javascript.positive_integer(number) == 2**53 - 1


def test_of_a_key_that_is_given_twice_the_last_value_counts_as_in_the_gateway() -> None:
    body = b'{"type": "req", "id": "1", "method": "x", "params": {"query": "a", "query": "b"}, "id": "2"}'
    frame = decode_request(body)
    assert (frame.id, frame.params) == ("2", {"query": "b"})
