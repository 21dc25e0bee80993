"""Over the wire: what an endpoint is sent, and what each of its failures is taken for (spec §7)."""

from __future__ import annotations

import asyncio
import email.utils
import time
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from embedding_endpoint import Endpoint, raw, status
from sidecar.adapters import openai_embeddings
from sidecar.adapters.openai_embeddings import OpenAiEmbeddings

from sidecar.domain.errors import EmbeddingFailed

KEY = "sk-secret-key"


@pytest.fixture
async def client(endpoint: Endpoint) -> AsyncIterator[OpenAiEmbeddings]:
    made = OpenAiEmbeddings(base_url=endpoint.base_url, model="tiny", api_key=KEY, timeout_seconds=5)
    yield made
    await made.close()


async def failure(client: OpenAiEmbeddings) -> EmbeddingFailed:
    with pytest.raises(EmbeddingFailed) as failed:
        await client.embed(["one", "two"])
    return failed.value


async def test_texts_come_back_as_vectors_of_length_one_in_their_order(
    endpoint: Endpoint, client: OpenAiEmbeddings
) -> None:
    found = await client.embed(["a banana", "an engine"])
    assert (found.identity.name, found.identity.dimensions) == ("tiny", 64)
    expected = np.array(endpoint.vectors(["a banana", "an engine"])) / 3
    assert np.allclose(found.matrix, expected, atol=1e-5)
    query = await client.embed_query("a banana", [("banana", 1.0)])
    assert np.allclose(query.matrix, expected[:1], atol=1e-5)
    assert endpoint.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert endpoint.asked[0] == {"model": "tiny", "input": ["a banana", "an engine"]}


async def test_input_types_and_dimensions_are_sent_where_configured(endpoint: Endpoint) -> None:
    client = OpenAiEmbeddings(
        base_url=endpoint.base_url,
        model="alias",
        dimensions=64,
        query_input_type="query",
        document_input_type="passage",
    )
    found = await client.embed(["a"])
    await client.embed_query("b", [])
    await client.close()
    assert endpoint.asked == [
        {"model": "alias", "input": ["a"], "dimensions": 64, "input_type": "passage"},
        {"model": "alias", "input": ["b"], "dimensions": 64, "input_type": "query"},
    ]
    assert "Authorization" not in endpoint.headers[0]
    assert found.identity.name == "alias (tiny) as passage"


async def test_text_that_is_no_unicode_or_empty_is_sent_all_the_same(
    endpoint: Endpoint, client: OpenAiEmbeddings
) -> None:
    await client.embed(["bad \udcff name", ""])
    assert endpoint.asked[0]["input"] == ["bad ? name", " "]


REFUSALS: dict[str, tuple[Any, str, bool, int | None]] = {
    "key": (status(401), "does not accept the API key (401)", True, None),
    "forbidden": (status(403), "forbids the request (403)", True, None),
    "no model": (status(404), "knows no such model or address (404)", True, None),
    "quota": (
        status(429, body={"error": {"code": "insufficient_quota", "message": KEY}}),
        "says that its quota is used up (429)",
        True,
        None,
    ),
    "too often": (status(429), "is asked too often (429)", False, None),
    "wait": (status(429, Retry_After="3"), "is asked too often (429)", False, 3000),
    "wait, nonsense": (status(429, Retry_After="soon"), "is asked too often (429)", False, None),
    "wait, endless": (status(429, Retry_After="1e99"), "is asked too often (429)", False, 86_400_000),
    "failing": (status(500), "is failing (500)", False, None),
    "overloaded": (status(503, Retry_After="1"), "is failing (503)", False, 1000),
    "text": (status(400), "refuses the request (400)", False, None),
    "redirect": (status(307, Location="/elsewhere"), "redirects elsewhere (307)", True, None),
    "web page": (raw(b"<html>login</html>"), "gave a web page instead of JSON", False, None),
}


ADVICE = {
    "key": "correct the key",
    "forbidden": "correct the key",
    "no model": "correct embeddings.base_url or embeddings.model",
    "quota": "renew the quota",
    "too often": "wait",
    "failing": "read the log of the endpoint",
    "overloaded": "read the log of the endpoint",
    "text": "correct embeddings.base_url",
    "redirect": "correct embeddings.base_url",
}


@pytest.mark.parametrize("case", ADVICE)
async def test_each_refusal_has_one_thing_to_do(
    endpoint: Endpoint, client: OpenAiEmbeddings, case: str
) -> None:
    endpoint.fault = REFUSALS[case][0]
    assert (await failure(client)).advice.startswith(ADVICE[case])


@pytest.mark.parametrize("case", REFUSALS)
async def test_each_refusal_has_its_own_reason_and_says_nothing_of_key_or_address(
    endpoint: Endpoint, client: OpenAiEmbeddings, case: str
) -> None:
    endpoint.fault, reason, lasting, wait = REFUSALS[case]
    failed = await failure(client)
    assert reason in failed.message
    assert (failed.lasting, failed.retry_after_ms, failed.answered) == (lasting, wait, True)
    assert KEY not in failed.message
    assert str(endpoint.port) not in failed.message
    assert len(endpoint.asked) == 1, "a redirect is not followed and nothing is retried here"


async def test_a_date_to_wait_for_is_understood(endpoint: Endpoint, client: OpenAiEmbeddings) -> None:
    endpoint.fault = status(429, Retry_After=email.utils.formatdate(time.time() + 100, usegmt=True))
    failed = await failure(client)
    assert failed.retry_after_ms is not None
    assert 80_000 < failed.retry_after_ms <= 100_000
    endpoint.fault = status(429, Retry_After=email.utils.formatdate(time.time() - 100, usegmt=True))
    assert (await failure(client)).retry_after_ms is None


async def test_a_body_that_breaks_off_is_no_answer(endpoint: Endpoint, client: OpenAiEmbeddings) -> None:
    async def fault(request: web.Request, _asked: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "5000", "Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b'{"data": [')
        assert request.transport is not None
        request.transport.abort()
        return response

    endpoint.fault = fault
    message = (await failure(client)).message
    assert message in (
        "the embedding endpoint broke off its answer",
        "the connection to the embedding endpoint failed",
    )


async def test_a_slow_endpoint_ends_at_the_deadline(endpoint: Endpoint) -> None:
    async def fault(_request: web.Request, _asked: dict[str, Any]) -> None:
        await asyncio.sleep(60)

    endpoint.fault = fault
    client = OpenAiEmbeddings(base_url=endpoint.base_url, model="tiny", timeout_seconds=0.2)
    began = time.monotonic()
    assert (await failure(client)).message == "the embedding endpoint did not answer within 0.2 s"
    assert time.monotonic() - began < 20
    await client.close()


async def test_an_endless_answer_is_not_read_to_its_end(
    endpoint: Endpoint, client: OpenAiEmbeddings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_embeddings, "MOST_BYTES", 200_000)
    endpoint.fault = raw(b'{"data": [' + b" " * 400_000)
    assert (await failure(client)).message == "the embedding endpoint gave too large an answer"


async def test_an_endpoint_that_is_down_is_named_without_its_address(
    endpoint: Endpoint, client: OpenAiEmbeddings
) -> None:
    await endpoint.stop()
    failed = await failure(client)
    assert failed.message == "the embedding endpoint cannot be reached (Connection refused)"
    assert not failed.answered
    nowhere = OpenAiEmbeddings(base_url="http://name.invalid", model="tiny")
    assert "cannot be reached" in (await failure(nowhere)).message
    await nowhere.close()
    await nowhere.close()
