"""The OpenAPI document says what the rule tables check, of every method (spec §4)."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from sidecar.api.audit_methods import AuditMethods
from sidecar.api.caller_methods import CallerMethods
from sidecar.api.host_methods import ProviderMethods
from sidecar.api.manager_methods import ManagerMethods
from sidecar.api.memory_methods import MemoryMethods
from sidecar.api.session_methods import SessionMethods
from sidecar.domain.errors import InvalidRequest
from sidecar.host.sessions import HostSessions
from sidecar.service.audit import Audit
from sidecar.service.leases import Leases
from sidecar.wire import host_params, kinds, manager_params, rules, session_params
from sidecar.wire import params as decoding
from sidecar.wire.methods import METHODS
from sidecar.wire.openapi import document, params_schema

ROUTES = ("/", "/rpc", "/rpc/{method}", "/healthz", "/readyz", "/openapi.json", "/metrics", "/ws")
FORMS = [(name, form) for name, entry in METHODS.items() for form in entry.params if form]
BOUNDARY: list[Any] = [
    None, True, False, 0, 1, 2, 3.0, 1.5, -1, 0.0, 1.0, 2.0, 10**300, 1e308, -1e308, "", " ", "\t\n",
    "\ufeff", "\u200b", "\x1c", "\x85", "\u2003\u3000", " x ", "2", "memory", [], ["memory"],
    ["memory", "sessions"], ["memory", "memory"], ["notes"], ["memory", 1], [None], {}, {"id": "a"},
    {"providerId": "p", "id": "a"},
    {"providerId": "p", "id": " "}, {"providerId": "p", "id": "a", "revision": None},
    {"providerId": "p", "id": "a", "fragment": "L1-L2", "more": 1},
]  # fmt: skip
OWN = {"providerId": "p", "id": "a"}
SESSION = {"kind": "session", "sessionKey": "agent:main:x", "sandboxed": False}
RECALL = {"anchorSessionKey": "agent:main:x", "scope": "same-agent-private", "corpus": "sessions"}
SESSION_NAMED = {"agentId": "main", "sessionKey": "agent:main:x", "sessionId": "1", "handle": "h"}
WELL_FORMED: list[dict[str, Any]] = [
    {"query": "x"},
    {"version": 1, "query": "x"},
    {"version": 2, "query": "x"},
    {"reference": OWN},
    {"lease": "l", "request": {"query": "x", "reference": OWN, "kind": "trigger"}},
    {"agentId": "main", "authority": {"kind": "operator", "scopes": []}},
    {"agentId": "main", "authority": SESSION},
    {"agentId": "main", "authority": SESSION | {"conversationRecall": RECALL}},
    {"agentId": "main", "authority": {"kind": "host", "operation": "x"}},
    {"agentId": "main", "rows": [{"sessionKey": "agent:main:x", "sessionId": "1"}]},
    {"query": "x", "path": "MEMORY.md"},
    {"relPath": "MEMORY.md"},
    {"agentId": "main"},
    {"kind": "trigger"},
    {"relativePaths": ["MEMORY.md"]},
    {"hits": [{"path": "MEMORY.md", "source": "memory"}], "sandboxed": False, "trustedAgentScope": True},
    SESSION_NAMED | {"senderIsOwner": True, "path": "MEMORY.md", "revision": "1", "originClass": "owner"},
    SESSION_NAMED | {"kind": "owner-private"},
    SESSION_NAMED | {"kind": "conversation", "rootSessionKey": "agent:main:x", "rootSessionId": "1"},
]
"""Parameters that some form admits; what is changed in them is what is tried."""


def changed(params: Any, path: tuple[str, ...], value: Any) -> Any:
    """The parameters with another value at a path; without one, where the value is `ABSENT`."""
    head, *rest = path
    if not isinstance(params, dict):
        return params
    if not rest and value is rules.ABSENT:
        return {key: item for key, item in params.items() if key != head}
    return params | {head: changed(params.get(head, {}), tuple(rest), value) if rest else value}


def admits(form: tuple[rules.Rule, ...], params: Any) -> bool:
    try:
        rules.check(form, params)
    except InvalidRequest:
        return False
    return True


def test_the_document_is_valid_openapi_and_plain_json() -> None:
    made = document(version="1", methods=METHODS, routes=ROUTES)
    OpenAPIV31SpecValidator(json.loads(json.dumps(made))).validate()
    assert set(made["paths"]) == {  # type: ignore[call-overload]
        *(f"/rpc/{name}" for name in METHODS),
        *(route for route in ROUTES if "{" not in route),
    }


def test_every_method_of_the_dispatcher_is_described_with_its_role_and_nothing_else_is() -> None:
    audit, sessions = Audit(), HostSessions(["main"])
    table = {
        **MemoryMethods({}, None).table(),
        **CallerMethods([], None).table(),
        **AuditMethods(audit=audit, agents=[]).table(),
        **ManagerMethods({}, None).table(),
        **ProviderMethods({}, Leases(audiences=sessions)).table(),
        **SessionMethods(agents=["main"], sessions=sessions, audit=audit).table(),
    }
    assert {name: entry.role for name, entry in METHODS.items()} == {
        name: method.role for name, method in table.items()
    }


@pytest.mark.parametrize(("name", "form"), FORMS, ids=[name for name, _ in FORMS])
def test_schema_and_rules_agree_on_every_boundary_value_of_every_field(name: str, form: Any) -> None:
    validator = Draft202012Validator(params_schema(form))
    bases = [params for params in WELL_FORMED if admits(form, params)]
    assert bases, f"{name}: no well-formed parameters to start from"
    verdicts = set()
    for base in bases:
        for path in {rule.path for rule in form}:
            for value in (*BOUNDARY, rules.ABSENT):
                params = changed(base, path, value)
                verdicts.add(admits(form, params))
                assert validator.is_valid(params) == admits(form, params), (name, params)
    assert verdicts == {True, False}
    assert validator.is_valid({}) == admits(form, {})


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.data(), st.sampled_from(FORMS), st.sampled_from(WELL_FORMED), st.sampled_from(BOUNDARY) | any_json)
def test_the_rules_and_the_schema_agree_on_whatever_comes(
    data: st.DataObject, chosen: Any, base: Any, value: Any
) -> None:
    _, form = chosen
    params = changed(base, data.draw(st.sampled_from([rule.path for rule in form])), value)
    assert Draft202012Validator(params_schema(form)).is_valid(params) == admits(form, params)


DECODERS: dict[str, Callable[[Any], object]] = {
    "memory.search": decoding.search,
    "memory.get": decoding.get,
    "memory.status": decoding.status,
    "sidecar.capabilities": decoding.status,
    "sidecar.explain": decoding.explain,
    "sidecar.search": decoding.bounded_search,
    "sidecar.notes": decoding.notes,
    "sidecar.why": decoding.why,
    "sidecar.refresh": decoding.refresh,
    "sidecar.audit": lambda params: rules.check(rules.AUDIT, params),
    "manager.search": manager_params.search,
    "manager.readFile": manager_params.read_file,
    "manager.status": manager_params.plain,
    "manager.sync": manager_params.sync,
    "manager.candidates": manager_params.candidates,
    "manager.probe": manager_params.plain,
    "manager.classify": manager_params.classify,
    "manager.authorize": manager_params.authorize,
    "session.put": session_params.row,
    "session.replace": session_params.replace,
    "session.delete": session_params.session_key,
    "audience.resolve": session_params.resolve,
    "audience.admit": session_params.admit,
    "audience.delegate": session_params.delegate,
    "audience.release": session_params.handle,
    "provenance.put": session_params.provenance,
    "provider.open": host_params.open_,
    "provider.search": host_params.search,
    "provider.get": host_params.get,
    "provider.candidates": host_params.candidates,
    "provider.health": host_params.lease,
    "provider.refresh": host_params.lease,
    "provider.close": host_params.lease,
}


@pytest.mark.parametrize("name", [name for name, entry in METHODS.items() if any(entry.params)])
def test_what_the_document_admits_is_what_the_decoder_takes(name: str) -> None:
    validators = [Draft202012Validator(params_schema(form)) for form in METHODS[name].params]
    paths = {rule.path for form in METHODS[name].params for rule in form}
    verdicts = set()
    for base in WELL_FORMED:
        for path in paths:
            for value in BOUNDARY:
                params = changed(base, path, value)
                taken = True
                try:
                    DECODERS[name](params)
                except InvalidRequest:
                    taken = False
                assert any(validator.is_valid(params) for validator in validators) == taken, params
                verdicts.add(taken)
    assert verdicts == {True, False}


KINDS = [
    kinds.TEXT,
    kinds.NUMBER,
    kinds.FLAG,
    kinds.text_up_to(3),
    kinds.one_of("memory", "x"),
    kinds.list_of(kinds.TEXT, most=1),
    kinds.list_of(kinds.POSITIVE),
    kinds.record({"id": kinds.TEXT}, {"fragment": kinds.POSITIVE, "revision": kinds.FLAG}),
]


@pytest.mark.parametrize("kind", KINDS)
def test_both_sides_of_a_kind_say_the_same(kind: kinds.Kind) -> None:
    validator = Draft202012Validator(dict(kind.schema))
    verdicts = {kind(value) for value in BOUNDARY}
    assert [value for value in BOUNDARY if validator.is_valid(value) != kind(value)] == []
    assert verdicts == {True, False}


@given(
    st.dates().map(str)
    | st.builds("{:04}-{:02}-{:02}".format, st.integers(1, 9999), st.integers(0, 13), st.integers(0, 32))
    | st.sampled_from(["2026-02-29", "2028-02-29", "2000-02-29", "1900-02-29", "2026-2-3", "20260203", ""])
)
def test_a_day_is_one_of_the_calendar_on_both_sides(written: str) -> None:
    try:
        real = datetime.date.fromisoformat(written).isoformat() == written
    except ValueError:
        real = False
    assert kinds.DAY(written) == real
    assert Draft202012Validator(dict(kinds.DAY.schema)).is_valid(written) == real


def test_a_rule_whose_predicate_has_no_schema_is_noticed() -> None:
    with pytest.raises(LookupError, match="has no schema"):
        params_schema((rules.Rule(("x",), math.isfinite, "x must be finite"),))  # type: ignore[arg-type]
