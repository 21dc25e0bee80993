"""The bundled model: the same vectors as its own loader gives, offline, light, and off the event loop."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.domain.errors import Unavailable
from sidecar.embedding import local
from sidecar.embedding.contract import Embedder, EmbeddingIdentity, normalised
from sidecar.embedding.local import DIMENSIONS, LocalEmbedder
from sidecar.embedding.offloaded import OffloadedEmbedder

TEXTS = [
    "We deploy on Fridays.",
    "The release goes out at the end of the week",
    "Bananas are yellow",
    "部署",
    "🙂 ok",
]


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.mark.parametrize("dimensions", DIMENSIONS)
def test_vectors_are_those_of_the_models_own_loader(dimensions: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import wordllama

        folder = Path(wordllama.__file__).parent
        model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True, trunc_dim=dimensions)
        expected = model.embed(TEXTS, norm=True)
    vectors = LocalEmbedder(dimensions=dimensions).embed(TEXTS)
    assert vectors.dtype == np.float32
    assert np.abs(vectors - expected).max() < 2e-3


def test_related_texts_are_nearer_than_unrelated_ones(embedder: LocalEmbedder) -> None:
    friday, week, bananas, *_ = embedder.embed(TEXTS)
    assert friday @ week > friday @ bananas + 0.05


@settings(max_examples=40)
@given(
    texts=st.lists(
        st.text(max_size=40) | st.text(alphabet=st.characters(categories=["Cs", "Lo"])), max_size=6
    )
)
def test_any_text_gives_one_row_of_length_one_or_zero_whatever_stands_beside_it(
    embedder: LocalEmbedder, texts: list[str]
) -> None:
    vectors = embedder.embed(texts)
    assert vectors.shape == (len(texts), 256)
    lengths = np.linalg.norm(vectors, axis=1)
    assert all(length == pytest.approx(1, abs=1e-5) or length == 0 for length in lengths)
    for text, vector in zip(texts, vectors, strict=True):
        assert np.array_equal(embedder.embed([text])[0], vector)


@cache
def _read_model() -> tuple[Any, Any]:
    return local.read_model(local._model_folder())


@settings(max_examples=60)
@given(
    texts=st.lists(
        st.text(max_size=30)
        | st.lists(
            st.sampled_from(
                [
                    "word",
                    " ",
                    "  ",
                    "\n",
                    "\n\n",
                    "\u2581",
                    "- ",
                    "Ünï",
                    "望文",
                    "🙂",
                    "<s>",
                    "</s>",
                    "\t",
                    "v1.2",
                ]
            ),
            max_size=14,
        ).map("".join),
        max_size=4,
    )
)
def test_vectors_are_the_means_of_what_the_whole_tokenizer_gives(
    embedder: LocalEmbedder, texts: list[str]
) -> None:
    tokenizer, weights = _read_model()
    means = np.zeros((len(texts), 256), np.float32)
    for row, text in enumerate(texts):
        ids = tokenizer.encode(text.encode("utf-8", "replace").decode(), add_special_tokens=False).ids
        if ids:
            means[row] = weights[ids].mean(0, dtype=np.float32)
    assert np.array_equal(embedder.embed(texts), normalised(means))


def test_no_rule_of_the_tokenizer_joins_words_or_lines() -> None:
    path = local._model_folder() / "tokenizers" / "l2_supercat_tokenizer_config.json"
    model = json.loads(path.read_text("utf-8"))
    start = local.WORD_START
    assert model["pre_tokenizer"] is None
    assert not [token for token in model["model"]["vocab"] if start in token.lstrip(start) or "\n" in token]


def test_a_long_text_is_read_to_its_end(embedder: LocalEmbedder) -> None:
    start = "word " * 3000
    with_end, without = embedder.embed([start + "zebra " * 3000, start])
    assert with_end @ without < 0.95


def test_an_empty_text_has_no_signal_and_no_text_no_rows(embedder: LocalEmbedder) -> None:
    assert not embedder.embed([""]).any()
    assert embedder.embed([]).shape == (0, 256)


def test_the_identity_tells_dimensions_apart_and_refuses_unknown_ones() -> None:
    assert LocalEmbedder(dimensions=64).identity != LocalEmbedder(dimensions=128).identity
    assert LocalEmbedder().identity == EmbeddingIdentity(local.MODEL_NAME, 256)
    with pytest.raises(ValueError, match="64, 128, 256"):
        LocalEmbedder(dimensions=100)
    with pytest.raises(ValueError, match="identity"):
        EmbeddingIdentity("", 5)


def test_neither_an_http_client_nor_the_models_package_is_loaded() -> None:
    program = (
        "import sys; from sidecar.embedding.local import LocalEmbedder\n"
        "assert not {'tokenizers', 'mmap'} <= set(sys.modules), 'loads on import'\n"
        "LocalEmbedder().embed(['text'])\n"
        "print(sorted({n.split('.')[0] for n in sys.modules} & "
        "{'requests', 'urllib3', 'huggingface_hub', 'wordllama', 'pydantic', 'httpx'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("fault", ["missing", "short", "garbage"])
def test_a_broken_model_is_unavailable_and_names_no_path(tmp_path: Path, fault: str) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "tokenizers").mkdir()
    if fault != "missing":
        data = b"\x05" if fault == "short" else b"\x08" + bytes(7) + b"nonsense" * 20
        (tmp_path / "weights" / "l2_supercat_256.safetensors").write_bytes(data)
    with pytest.raises(Unavailable) as caught:
        local.read_model(tmp_path)
    assert str(tmp_path) not in str(caught.value)


def test_a_query_is_the_sum_of_its_words_by_weight(embedder: LocalEmbedder) -> None:
    banana, engine = embedder.embed(["banana", "engine"])
    assert embedder.embed_words([("banana", 2.0)]) @ banana == pytest.approx(1, abs=1e-5)
    fruity = embedder.embed_words([("banana", 3.0), ("engine", 0.5)])
    assert fruity @ banana > fruity @ engine
    assert np.linalg.norm(fruity) == pytest.approx(1, abs=1e-5)
    assert not embedder.embed_words([]).any()
    assert not embedder.embed_words([("banana", 0.0), ("", 1.0)]).any()


async def test_a_query_has_the_same_vector_before_and_after_the_model_is_loaded() -> None:
    model = LocalEmbedder(dimensions=64)
    offloaded = OffloadedEmbedder(model)
    words = [("release", 1.0), ("friday", 0.4)]
    assert not model.is_loaded
    first = await offloaded.embed_query("the release on friday", words)
    assert model.is_loaded
    again = await offloaded.embed_query("the release on friday", words)
    assert np.array_equal(first.matrix, again.matrix)
    await offloaded.close()


@pytest.mark.slow
async def test_the_loop_goes_on_while_texts_are_embedded(embedder: LocalEmbedder) -> None:
    offloaded: Embedder = OffloadedEmbedder(embedder)
    texts = ["a sentence about something " * 30] * 3000
    work = asyncio.create_task(offloaded.embed(texts))
    turns = 0
    while not work.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 50
    vectors = work.result().matrix
    assert vectors.shape == (3000, 256)
    assert np.array_equal(vectors[2999], embedder.embed(texts[:1])[0])
    assert (await offloaded.embed([])).matrix.shape == (0, 256)
    await offloaded.close()
    await offloaded.close()


@pytest.mark.slow
async def test_a_query_does_not_wait_for_the_whole_of_a_running_backfill(embedder: LocalEmbedder) -> None:
    offloaded = OffloadedEmbedder(embedder)
    backfill = asyncio.create_task(offloaded.embed(["some text to embed " * 40] * 4000))
    await offloaded.embed(["first"])
    assert not backfill.done()
    await backfill
    await offloaded.close()


def test_rows_that_are_not_finite_become_zeros() -> None:
    matrix = np.array([[3, 4], [np.nan, 1], [np.inf, 0], [0, 0]], np.float32)
    assert normalised(matrix).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0], [0, 0], [0, 0]]
