"""What no service over these libraries can go below: measured over the same notes in the same run."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import hnswlib
import msgspec
import numpy as np
import tantivy

from sidecar.benchmark.speed_load import Connection, Load, ask, quantile
from sidecar.domain.errors import Unavailable

_CANDIDATES = 200
_DIMENSIONS = 256
_LINES_A_VECTOR = 4


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds. `http`: an empty handler; `read`: reading and hashing every note.

    `words_*`: Tantivy with every line as a document; `vectors_*`: hnswlib with a random vector for every four
    lines. `http` and `*_search` are medians.
    """

    http: float
    http_cpu: float
    read: float
    words_build: float
    words_search: float
    vectors_build: float
    vectors_search: float

    @property
    def search(self) -> float:
        """An answer without any work of ours."""
        return self.http + self.words_search + self.vectors_search

    @property
    def index(self) -> float:
        """An index without any work of ours."""
        return self.read + self.words_build + self.vectors_build


def measure_floor(paths: Sequence[Path], asked: Sequence[str], seed: int) -> Floor:
    """The floors over these notes and queries. Blocking."""
    empty = _http(3 * len(asked))
    began = time.perf_counter()
    texts = []
    for path in paths:
        data = path.read_bytes()
        hashlib.sha256(data).digest()
        texts.append(data.decode())
    read = time.perf_counter() - began
    lines = [line for text in texts for line in text.split("\n") if line.strip()]
    words_build, words_search = _words(lines, asked)
    vectors_build, vectors_search = _vectors(max(1, len(lines) // _LINES_A_VECTOR), len(asked), seed)
    return Floor(
        http=empty.quantile(0.5),
        http_cpu=empty.cpu_each,
        read=read,
        words_build=words_build,
        words_search=words_search,
        vectors_build=vectors_build,
        vectors_search=vectors_search,
    )


def _http(count: int) -> Load:
    command = [sys.executable, "-m", "sidecar.benchmark.empty_service"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own module
    try:
        assert server.stdout is not None  # noqa: S101 - it was asked for as a pipe
        port = server.stdout.readline().strip()
        if not port:
            raise Unavailable("the empty service did not start")
        connection = Connection(f"http://127.0.0.1:{port}")
        body = msgspec.json.encode({"version": 2, "query": "four words of query"})
        ask(connection, "/", [body] * 50, pid=server.pid)
        load = ask(connection, "/", [body] * count, pid=server.pid)
        connection.close()
        return load
    finally:
        server.terminate()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()


def _words(lines: Sequence[str], asked: Sequence[str]) -> tuple[float, float]:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("id", fast=True)
    builder.add_text_field("body")
    schema = builder.build()
    with tempfile.TemporaryDirectory(prefix="memory-sidecar-floor-") as folder:
        index = tantivy.Index(schema, folder)
        began = time.perf_counter()
        writer = index.writer(64_000_000, 1)
        for number, line in enumerate(lines):
            document = tantivy.Document()
            document.add_unsigned("id", number)
            document.add_text("body", line)
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        built = time.perf_counter() - began
        index.reload()
        searcher = index.searcher()
        times = []
        for query in asked:
            began = time.perf_counter()
            terms = [
                (tantivy.Occur.Should, tantivy.Query.term_query(schema, "body", word.lower()))
                for word in query.split()
            ]
            hits = searcher.search(tantivy.Query.boolean_query(terms), _CANDIDATES).hits
            searcher.fast_field_values("id", [address for _, address in hits])
            times.append(time.perf_counter() - began)
        return built, quantile(times, 0.5)


def _vectors(count: int, asked: int, seed: int) -> tuple[float, float]:
    vectors = np.random.default_rng(seed).standard_normal((count, _DIMENSIONS), dtype=np.float32)
    index = hnswlib.Index("cosine", _DIMENSIONS)
    index.init_index(count, M=16, ef_construction=100, random_seed=seed)
    began = time.perf_counter()
    index.add_items(vectors)
    built = time.perf_counter() - began
    index.set_ef(_CANDIDATES)
    times = []
    for number in range(asked):
        began = time.perf_counter()
        index.knn_query(vectors[number % count], k=min(_CANDIDATES, count), num_threads=1)
        times.append(time.perf_counter() - began)
    return built, quantile(times, 0.5)
