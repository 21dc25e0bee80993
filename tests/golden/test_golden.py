"""What a client sees does not change unnoticed, and is what the OpenAPI document says."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from golden_replay import MASK, ask, files
from jsonschema import Draft202012Validator

from sidecar.wire.methods import METHODS
from sidecar.wire.openapi import document

ROUTES = ("/rpc", "/rpc/{method}", "/healthz", "/readyz", "/openapi.json", "/metrics", "/ws")
EXCHANGES = [
    pytest.param(exchange, id=f"{path.stem}: {exchange['says']}")
    for path in files()
    for exchange in json.loads(path.read_text(encoding="utf-8"))["exchanges"]
]


def closed(schema: Any) -> Any:
    """A schema whose described objects admit no other property, and masked values anywhere."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: closed(value) for key, value in schema.items() if key != "properties"}
    if "properties" in schema:
        out["properties"] = {name: closed(part) for name, part in schema["properties"].items()}
        out.setdefault("additionalProperties", False)
    return {"anyOf": [out, {"const": MASK}]} if {"type", "enum", "const"} & set(out) else out


@pytest.mark.parametrize("exchange", EXCHANGES)
async def test_an_exchange_is_what_it_was(golden_service: Any, exchange: dict[str, Any]) -> None:
    await golden_service.ready()
    assert ask(golden_service, exchange["send"]) == exchange["receive"]


@cache
def whole_document() -> Any:
    return document(version="1", methods=METHODS, routes=ROUTES)


def described(send: dict[str, Any], status: int) -> Any:
    """The schema that the document gives for an answer, or None where the route is not one of ours."""
    made = whole_document()
    operation = made["paths"].get(send["path"], {}).get(send["method"].lower())
    if operation is None:
        return None
    schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
    shapes = {name: closed(part) for name, part in made["components"]["schemas"].items()}
    return closed(schema) | {"components": {"schemas": shapes}}


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_an_answer_has_the_fields_of_the_document_and_no_others(exchange: dict[str, Any]) -> None:
    received = exchange["receive"]
    schema = described(exchange["send"], received["status"])
    if schema is None:
        assert received["status"] in (400, 401, 403, 404, 405)
    else:
        Draft202012Validator(schema).validate(received["body"])


def test_every_method_and_every_status_of_the_door_has_an_exchange() -> None:
    sent = [param.values[0] for param in EXCHANGES]
    methods = {exchange["send"]["path"].removeprefix("/rpc/") for exchange in sent}
    assert {name for name, entry in METHODS.items() if entry.role is None} - methods == set()
    assert {exchange["receive"]["status"] for exchange in sent} >= {
        200,
        400,
        401,
        403,
        404,
        405,
        413,
        415,
        503,
    }


def test_no_golden_file_holds_a_path_of_the_machine_or_a_token() -> None:
    for path in files():
        text = path.read_text(encoding="utf-8")
        assert str(Path.home()) not in text
        assert "Bearer" not in text
