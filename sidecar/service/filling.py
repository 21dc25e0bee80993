"""Vectors for what is indexed, in the background: words never wait for a slow or failing endpoint (spec §7).

One filler an agent. It alone asks an endpoint that failed, finds out whose vectors the endpoint gives, and
sees to it that every block gets one: what failed stays in the index as waiting, what came is stored at once,
so that nothing is lost or embedded twice.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Collection, Mapping

from sidecar.domain.errors import EmbeddingFailed, SidecarError
from sidecar.embedding.contract import Embedded, EmbeddingIdentity
from sidecar.embedding.guarded import GuardedEmbedder
from sidecar.index.agent_index import AgentIndex

log = logging.getLogger(__name__)

PROBE_TEXT = "memory"
REFUSED_SECONDS = 600.0
"""A text that the endpoint cannot embed is tried again after this time."""
MOST_REFUSED = 1000
FAILURES_OF_ONE = 3
"""More than the circuit allows: a text is to blame only when the endpoint worked for a probe in between."""
FAULT_PAUSE_SECONDS = 10.0
_SHORT_PAUSE = (0.2, 0.6)
_LEAST_PAUSE = 0.05


class VectorFiller:
    """`run` is its task; `fill` is one pass of it."""

    def __init__(self, *, embedder: GuardedEmbedder, index: AgentIndex) -> None:
        self._embedder = embedder
        self._index = index
        self._limit = embedder.batch
        self._turn = asyncio.Lock()
        self._wake = asyncio.Event()
        self._doubtful = False
        self._refused: dict[bytes, float] = {}
        self._blamed: tuple[bytes, int] = (b"", 0)
        self.refusal: str | None = None
        self.embedded = 0
        embedder.listen(self._wake.set)

    @property
    def refused(self) -> Collection[bytes]:
        """The hashes of texts that the endpoint does not embed, for now."""
        return self._refused.keys()

    def wake(self) -> None:
        """There may be something to embed."""
        self._wake.set()

    def doubt(self) -> None:
        """A query got vectors of another model than the index has: find out which it is."""
        self._doubtful = True
        self._wake.set()

    async def run(self) -> None:
        """Fill whenever something waits, until cancelled; pauses follow the circuit."""
        while True:
            self._wake.clear()
            pause = await self._round()
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def fill(self, *, whole: bool = True) -> None:
        """Embed what waits, or without `whole` only find out whose vectors to use.

        Raises `EmbeddingFailed` when the circuit has opened; what came before that is stored.
        """
        async with self._turn:
            await self._meet()
            while whole and (waiting := await self._index.pending_blocks(self._limit, self._skip())):
                await self._embed(dict(waiting))

    async def _round(self) -> float | None:
        """One pass; gives the seconds until the next one is due by itself."""
        try:
            await self.fill()
        except EmbeddingFailed:
            return max(_LEAST_PAUSE, self._embedder.circuit.due_in)
        except SidecarError as error:
            log.warning("vectors could not be stored: %s", error.message)
            return FAULT_PAUSE_SECONDS
        except Exception:  # the supervisor of this task: nothing may end it silently
            log.exception("filling in vectors failed")
            return FAULT_PAUSE_SECONDS
        soonest = min(self._refused.values(), default=None)
        return None if soonest is None else max(_LEAST_PAUSE, soonest - time.monotonic())

    async def _meet(self) -> None:
        """Have a working endpoint and use the vectors of its model."""
        if self._index.model is not None and self._embedder.circuit.state == "closed" and not self._doubtful:
            return
        answer = await self._probe()
        self._doubtful = False
        await self._adopt(answer)

    async def _probe(self) -> Embedded:
        """Ask for one word: whether the endpoint works, and whose vectors it gives."""
        return await self._embedder.embed([PROBE_TEXT], probe=True)

    async def _adopt(self, answer: Embedded) -> None:
        before = self._index.model
        await self._index.adopt(answer.identity, answer.matrix[0])
        if self._index.model != before:
            model = answer.identity
            log.info("vectors are of model %s", model.name, extra={"dimensions": model.dimensions})
            self._refused.clear()

    async def _embed(self, texts: Mapping[bytes, str]) -> None:
        try:
            answer = await self._embedder.embed(list(texts.values()))
            if answer.identity != self._index.model:
                await self._confirm(answer.identity)
        except EmbeddingFailed as failure:
            await self._after(failure, texts)
            return
        await self._index.add_vectors(dict(zip(texts, answer.matrix, strict=True)))
        self.embedded += len(texts)
        self._limit = min(self._embedder.batch, 2 * self._limit)

    async def _confirm(self, model: EmbeddingIdentity) -> None:
        """Another model answers: once more, before every vector is made anew for one odd answer."""
        answer = await self._probe()
        if answer.identity != model:
            failure = EmbeddingFailed(
                "the embedding endpoint answers with one model and another", answered=True
            )
            self._embedder.distrust(failure)
            raise failure
        await self._adopt(answer)

    async def _after(self, failure: EmbeddingFailed, texts: Mapping[bytes, str]) -> None:
        """Go on with fewer texts at a time; one that fails by itself waits, so that it holds up no other."""
        self._limit = max(1, len(texts) // 2)
        if len(texts) == 1 and failure.answered and not failure.lasting:
            self._blame(next(iter(texts)), failure)
        if self._embedder.circuit.state != "closed":
            raise failure
        await self.breathe()

    def _blame(self, digest: bytes, failure: EmbeddingFailed) -> None:
        last, count = self._blamed
        count = count + 1 if last == digest else 1
        self._blamed = (digest, count)
        if count >= FAILURES_OF_ONE and len(self._refused) < MOST_REFUSED:
            self._refused[digest] = time.monotonic() + REFUSED_SECONDS
            self.refusal = failure.message
            log.warning("a text cannot be embedded for now: %s", failure.message)

    async def breathe(self) -> None:
        """A short pause before the same is tried once more."""
        await asyncio.sleep(random.uniform(*_SHORT_PAUSE))  # noqa: S311 (not a secret)

    def _skip(self) -> Collection[bytes]:
        now = time.monotonic()
        for digest in [digest for digest, until in self._refused.items() if until <= now]:
            del self._refused[digest]
        return self._refused.keys()
