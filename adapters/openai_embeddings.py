"""Embeddings of an OpenAI-compatible endpoint: Ollama, LM Studio, llama.cpp, vLLM, OpenAI (spec §7).

One call is one `POST {base_url}/embeddings`. Redirects are not followed and proxies of the environment not
used, so a key reaches the configured host alone; messages name neither.
"""

from __future__ import annotations

import asyncio
import email.utils
import os
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import NoReturn

import aiohttp
import msgspec
from sidecar.adapters.openai_answers import Answer, is_quota, read_answer

from sidecar.domain.errors import EmbeddingFailed
from sidecar.embedding.contract import Embedded, EmbeddingIdentity

BATCH = 32
MOST_BYTES = 16 * 1024 * 1024
# Less than the 5 s after which common servers close an idle connection: a request that meets such a close is
# lost, and would count as a failure of the endpoint.
_KEPT_SECONDS = 3
_MOST_ERROR_BYTES = 64 * 1024
_LONGEST_RETRY_AFTER_MS = 24 * 3600 * 1000
_LASTING = {
    HTTPStatus.UNAUTHORIZED: "does not accept the API key (401)",
    HTTPStatus.PAYMENT_REQUIRED: "asks for payment (402)",
    HTTPStatus.FORBIDDEN: "forbids the request (403)",
    HTTPStatus.NOT_FOUND: "knows no such model or address (404): are base_url and model right?",
    HTTPStatus.METHOD_NOT_ALLOWED: "is no embedding endpoint (405): is base_url right?",
}


class OpenAiEmbeddings:
    """One endpoint and model. Its dimensions are not known before it has answered."""

    batch = BATCH
    immediate = False
    identity = None

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        api_key: str | None = None,
        dimensions: int | None = None,
        query_input_type: str | None = None,
        document_input_type: str | None = None,
        timeout_seconds: float = 10.0,
    ) -> None:
        self._url = f"{base_url}/embeddings"
        self._model = model
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._dimensions = dimensions
        self._query_input_type = query_input_type
        self._document_input_type = document_input_type
        self._timeout_seconds = timeout_seconds
        self._session: aiohttp.ClientSession | None = None

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """The vectors of texts to be found, in one request. Raises `EmbeddingFailed`."""
        return self._embedded(await self._ask(texts, self._document_input_type))

    async def embed_query(self, text: str, words: Sequence[tuple[str, float]]) -> Embedded:  # noqa: ARG002
        """The vector of a query as the only row: such models read sentences. Raises `EmbeddingFailed`."""
        return self._embedded(await self._ask([text], self._query_input_type))

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _embedded(self, answer: Answer) -> Embedded:
        """Whatever changes a stored vector is a part of its model's name."""
        parts = [self._model]
        if answer.model not in (None, self._model):
            parts.append(f"({answer.model})")
        if self._document_input_type is not None:
            parts.append(f"as {self._document_input_type}")
        return Embedded(EmbeddingIdentity(" ".join(parts), int(answer.matrix.shape[1])), answer.matrix)

    async def _ask(self, texts: Sequence[str], input_type: str | None) -> Answer:
        asked: dict[str, object] = {"model": self._model, "input": [_sendable(text) for text in texts]}
        if self._dimensions is not None:
            asked["dimensions"] = self._dimensions
        if input_type is not None:
            asked["input_type"] = input_type
        body = await self._post(msgspec.json.encode(asked))
        return await asyncio.to_thread(read_answer, body, count=len(texts), dimensions=self._dimensions)

    async def _post(self, asked: bytes) -> bytes:
        """The body of a 200; every other outcome is an `EmbeddingFailed` in our own words."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self._timeout_seconds),
                cookie_jar=aiohttp.DummyCookieJar(),
                connector=aiohttp.TCPConnector(keepalive_timeout=_KEPT_SECONDS),
            )
        try:
            async with self._session.post(
                self._url, data=asked, headers=self._headers, allow_redirects=False
            ) as response:
                if response.status != HTTPStatus.OK:
                    _refused(response.status, response.headers, await _bounded(response, _MOST_ERROR_BYTES))
                body = await _bounded(response, MOST_BYTES)
        except TimeoutError as error:
            raise EmbeddingFailed(
                f"the embedding endpoint did not answer within {self._timeout_seconds:g} s",
                answered=True,
                advice="raise embeddings.timeout_seconds, or see why the endpoint is slow",
            ) from error
        except aiohttp.ClientPayloadError as error:
            raise EmbeddingFailed("the embedding endpoint broke off its answer", answered=True) from error
        except aiohttp.ClientSSLError as error:
            raise EmbeddingFailed(
                "no secure connection to the embedding endpoint can be made",
                advice="correct the endpoint's certificate, or embeddings.base_url",
            ) from error
        except aiohttp.ClientConnectorError as error:
            # The system's own words for the number: those of the exception name the address.
            number = error.os_error.errno or 0
            reason = os.strerror(number) if number > 0 else "no such host"
            raise EmbeddingFailed(f"the embedding endpoint cannot be reached ({reason})") from error
        except (aiohttp.ClientError, OSError) as error:
            raise EmbeddingFailed("the connection to the embedding endpoint failed") from error
        if len(body) > MOST_BYTES:
            raise EmbeddingFailed("the embedding endpoint gave too large an answer", answered=True)
        return body


async def _bounded(response: aiohttp.ClientResponse, most: int) -> bytes:
    """At most `most` + 1 bytes of the body."""
    parts = bytearray()
    async for part in response.content.iter_chunked(64 * 1024):
        parts += part
        if len(parts) > most:
            break
    return bytes(parts[: most + 1])


def _refused(status: int, headers: Mapping[str, str], body: bytes) -> NoReturn:
    wait = _retry_after_ms(headers.get("Retry-After"))
    if status in _LASTING:
        what, lasting = _LASTING[HTTPStatus(status)], True
    elif 300 <= status < 400:
        what, lasting = f"redirects elsewhere ({status}), which is not followed: is base_url right?", True
    elif status == HTTPStatus.TOO_MANY_REQUESTS:
        lasting = is_quota(body)
        what = "says that its quota is used up (429)" if lasting else "is asked too often (429)"
    elif status >= 500:
        what, lasting = f"is failing ({status})", False
    else:
        what, lasting = f"refuses the request ({status})", False
    raise EmbeddingFailed(
        f"the embedding endpoint {what}",
        lasting=lasting,
        answered=True,
        advice=_advice(status, lasting=lasting),
        retry_after_ms=wait,
    )


def _advice(status: int, *, lasting: bool) -> str:
    """The one thing to do about a refusal."""
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return "correct the key in the variable that embeddings.api_key_env names"
    if status == HTTPStatus.PAYMENT_REQUIRED or (status == HTTPStatus.TOO_MANY_REQUESTS and lasting):
        return 'renew the quota of the key, or set embeddings.provider = "local"'
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return "wait: it is asked again, more seldom"
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "read the log of the endpoint, and start it again"
    return "correct embeddings.base_url or embeddings.model"


def _retry_after_ms(value: str | None) -> int | None:
    """Milliseconds from a `Retry-After` of seconds or of a date; None without a usable one."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    if not seconds >= 0:  # a past date, or not a number
        return None
    return int(min(1000 * seconds, _LONGEST_RETRY_AFTER_MS))


def _sendable(text: str) -> str:
    """Without lone surrogates, which are no JSON, and never empty, which endpoints refuse."""
    return text.encode("utf-8", "replace").decode("utf-8") or " "
