"""The bundled static model: token vectors averaged, no key, no download, no network (spec §7).

The weights and the tokenizer ship inside the `wordllama` distribution. Only those two files are used, not
its loader, which brings an HTTP client, a validation library and a model hub client along and copies the
weights. First use, measured with numpy loaded: 90 ms and 37 MB this way, 300 ms and 80 MB that way. The table
of weights stays a memory map that the kernel may drop, and the vectors are the same.
"""

from __future__ import annotations

import importlib.util
import json
import mmap
import struct
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sidecar.domain.errors import EmbeddingFailed
from sidecar.embedding.contract import EmbeddingIdentity, FloatMatrix, normalised

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MODEL_NAME = "wordllama-l2-supercat"
DEFAULT_DIMENSIONS = 256
# The model was trained so that these prefixes of its vectors are useful by themselves.
DIMENSIONS = (64, 128, 256)

_WEIGHTS = Path("weights") / "l2_supercat_256.safetensors"
_TOKENIZER = Path("tokenizers") / "l2_supercat_tokenizer_config.json"
_TENSOR = "embedding.weight"
# Texts tokenized together: it bounds what a call holds beside its result.
_BATCH = 256
# Words of queries come again and again; so many vectors are 1 MB.
_KEPT_WORDS = 1024


class LocalEmbedder:
    """The bundled model. It loads on first use and may be called from several threads at once."""

    def __init__(self, *, dimensions: int = DEFAULT_DIMENSIONS) -> None:
        if dimensions not in DIMENSIONS:
            raise ValueError(
                f"the local model has {', '.join(map(str, DIMENSIONS))} dimensions, not {dimensions}"
            )
        self._identity = EmbeddingIdentity(MODEL_NAME, dimensions)
        self._lock = threading.Lock()
        self._loaded: tuple[Tokenizer, NDArray[np.float16]] | None = None
        self._word = lru_cache(maxsize=_KEPT_WORDS)(self._word_vector)

    @property
    def identity(self) -> EmbeddingIdentity:
        """Model and dimensions of every vector."""
        return self._identity

    def embed(self, texts: Sequence[str]) -> FloatMatrix:
        """Vectors of shape `(len(texts), dimensions)`, rows of length 1 (zeros for a text without a token).

        Blocking. Raises `EmbeddingFailed` when the files of the model are missing or unreadable.
        """
        tokenizer, weights = self._load()
        width = self._identity.dimensions
        vectors = np.zeros((len(texts), width), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            batch = [_encodable(text) for text in texts[start : start + _BATCH]]
            encoded = tokenizer.encode_batch_fast(batch, add_special_tokens=False)
            for row, encoding in enumerate(encoded, start):
                if encoding.ids:
                    vectors[row] = weights[encoding.ids, : self._identity.dimensions].mean(
                        0, dtype=np.float32
                    )
        return normalised(vectors)

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory."""
        return self._loaded is not None

    def embed_words(self, words: Sequence[tuple[str, float]]) -> NDArray[np.float32]:
        """The vector of length 1 of a weighted sum of words (zeros without any), as `embed` blocking.

        A word that stands in every note, such as a speaker's name, then steers the vector as little as it
        steers the words; a plain mean of all words finds less than words alone do.
        """
        total = np.zeros((1, self._identity.dimensions), dtype=np.float32)
        for word, weight in words:
            mean = self._word(word)
            if mean is not None:
                total[0] += np.float32(weight) * mean
        row: NDArray[np.float32] = normalised(total)[0]
        return row

    def _word_vector(self, word: str) -> NDArray[np.float32] | None:
        """The mean of a word's tokens, None without one."""
        tokenizer, weights = self._load()
        ids = tokenizer.encode(_encodable(word), add_special_tokens=False).ids
        if not ids:
            return None
        mean: NDArray[np.float32] = weights[ids, : self._identity.dimensions].mean(0, dtype=np.float32)
        return mean

    def _load(self) -> tuple[Tokenizer, NDArray[np.float16]]:
        with self._lock:
            if self._loaded is None:
                self._loaded = read_model(_model_folder())
            return self._loaded


def _encodable(text: str) -> str:
    """The text without lone surrogates, which the tokenizer cannot take."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _model_folder() -> Path:
    spec = importlib.util.find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddingFailed("the local embedding model is not installed")
    return Path(spec.submodule_search_locations[0])


def read_model(folder: Path) -> tuple[Tokenizer, NDArray[np.float16]]:
    """The model's tokenizer and its table of token vectors; raises `EmbeddingFailed` for unreadable ones."""
    from tokenizers import Tokenizer  # 5 MB that a service without local embeddings does not need

    try:
        weights = _map_weights(folder / _WEIGHTS)
        tokenizer = Tokenizer.from_str((folder / _TOKENIZER).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, struct.error) as error:
        raise EmbeddingFailed("the local embedding model cannot be read") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer, weights


def _map_weights(path: Path) -> NDArray[np.float16]:
    """The table of token vectors, `(tokens, dimensions)` half floats, mapped from its file."""
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    (header_size,) = struct.unpack_from("<Q", mapped)
    tensor = json.loads(mapped[8 : 8 + header_size])[_TENSOR]
    if tensor["dtype"] != "F16":
        raise ValueError(f"weights of type {tensor['dtype']}")
    rows, columns = tensor["shape"]
    begin, _ = tensor["data_offsets"]
    table = np.frombuffer(mapped, dtype="<f2", count=rows * columns, offset=8 + header_size + begin)
    return table.reshape(rows, columns)
