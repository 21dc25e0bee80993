"""The ranking by itself, in this process: one workspace indexed once, searched with many parameters.

For comparing variants of one idea, where asking a service over the wire would only add its start and its
encoding. What the product does is measured over the wire (`retrieval`); the unchanged variant gives the same
figures in both ways.
"""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np

from sidecar.benchmark.scoring import Cited, Excerpt
from sidecar.corpus.scan import Corpus
from sidecar.domain.memory import Hit, SearchRequest
from sidecar.embedding.local import LocalEmbedder
from sidecar.index.agent_index import AgentIndex
from sidecar.index.documents import IndexDocument
from sidecar.index.view import View
from sidecar.ranking.floor import Floor
from sidecar.ranking.parameters import DEFAULT, Parameters
from sidecar.service.documents import LAYOUT, Unchanged, document_of
from sidecar.service.hits import HitMaker
from sidecar.service.legs import weigh, weighted_words
from sidecar.service.note_search import NoteSearch
from sidecar.service.shelf import Shelf
from sidecar.service.timings import LegTimes
from sidecar.text.terms import QueryTerm, query_terms

Terms = Callable[[str], list[QueryTerm]]
Alter = Callable[[IndexDocument], IndexDocument]


class Laboratory:
    """One indexed workspace. Its files are only read, its state is gone at the end."""

    def __init__(self, view: View, search: NoteSearch, embedder: LocalEmbedder) -> None:
        self._view = view
        self._search = search
        self._embedder = embedder

    @classmethod
    @asynccontextmanager
    async def over(cls, workspace: Path, alter: Alter | None = None) -> AsyncIterator[Laboratory]:
        """Index a workspace with local embeddings; `alter` changes each document before it is stored."""
        embedder = LocalEmbedder()
        corpus = Corpus(workspace)
        with tempfile.TemporaryDirectory(prefix="memory-sidecar-laboratory-") as state:
            index = await AgentIndex.open(Path(state), layout=LAYOUT, model=embedder.identity)
            try:
                documents = [alter(each) if alter else each for each in _documents(corpus)]
                blocks = {block.hash: block.text for each in documents for block in each.blocks}
                vectors = dict(zip(blocks, embedder.embed(list(blocks.values())), strict=True))
                await index.apply(documents, vectors=vectors)
                search = NoteSearch(hits=HitMaker("laboratory"), shelf=Shelf(corpus), legs=LegTimes())
                yield cls(index.view(), search, embedder)
            finally:
                await index.close()

    def ask(
        self,
        query: str,
        floor: Floor,
        *,
        most: int = 50,
        parameters: Parameters = DEFAULT,
        meaning: bool = True,
        terms: Terms = query_terms,
    ) -> tuple[Hit, ...]:
        """The hits of a query; without `meaning` by words alone."""
        weighted = weigh(self._view, ("memory",), terms(query))
        vector = None
        if meaning and weighted:
            vector = np.asarray(self._embedder.embed_words(weighted_words(query, weighted)), np.float32)
        request = SearchRequest(query=query, max_results=most)
        descent = self._search.descend(
            self._view, weighted, vector, request, floor, today=datetime.date.today(), parameters=parameters
        )
        return descent.hits


def excerpts(hits: Sequence[Hit]) -> list[Excerpt]:
    """The hits as they are scored."""
    return [
        Excerpt(
            hit.excerpt,
            tuple(
                Cited(cited.reference.id, cited.start_line, cited.end_line)
                for cited in hit.citations
                if cited.reference is not None and cited.start_line is not None and cited.end_line is not None
            ),
        )
        for hit in hits
    ]


def _documents(corpus: Corpus) -> list[IndexDocument]:
    found: list[IndexDocument] = []
    for file in corpus.scan().files:
        read = corpus.read(file)
        document = document_of(read, settled=True, known_hash=None) if read is not None else None
        if document is not None and not isinstance(document, Unchanged):
            found.append(document)
    return found
