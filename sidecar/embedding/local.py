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
import re
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
# Words whose tokens are kept, about 3 MB.
_KEPT_TOKENIZED = 16_384
_CACHED_LENGTH = 48
WORD_START = "\u2581"
"""The model's sign for a space, and for the beginning of a text."""
_PIECE = re.compile(f"{WORD_START}*[^{WORD_START}\n]+|{WORD_START}+|\n+")
# The tokenizer's own signs, which it takes out of a text before anything else.
_MARKUP = re.compile("<unk>|</?s>")


class LocalEmbedder:
    """The bundled model. It loads on first use and may be called from several threads at once."""

    def __init__(self, *, dimensions: int = DEFAULT_DIMENSIONS) -> None:
        if dimensions not in DIMENSIONS:
            raise ValueError(
                f"the local model has {', '.join(map(str, DIMENSIONS))} dimensions, not {dimensions}"
            )
        self._identity = EmbeddingIdentity(MODEL_NAME, dimensions)
        self._lock = threading.Lock()
        self._loaded: _Model | None = None
        self._word = lru_cache(maxsize=_KEPT_WORDS)(self._word_vector)

    @property
    def identity(self) -> EmbeddingIdentity:
        """Model and dimensions of every vector."""
        return self._identity

    def embed(self, texts: Sequence[str]) -> FloatMatrix:
        """Vectors of shape `(len(texts), dimensions)`, rows of length 1 (zeros for a text without a token).

        Blocking. Raises `EmbeddingFailed` when the files of the model are missing or unreadable.
        """
        model = self._load()
        vectors = np.zeros((len(texts), self._identity.dimensions), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            self._average(model, texts[start : start + _BATCH], vectors[start : start + _BATCH])
        return normalised(vectors)

    def _average(self, model: _Model, texts: Sequence[str], out: FloatMatrix) -> None:
        """Each text's mean of token vectors; the half floats of a token are converted once for all texts."""
        tokens = [np.frombuffer(model.tokens_of(text), np.uint16) for text in texts]
        if not any(map(len, tokens)):
            return
        present = np.zeros(len(model.weights), np.bool_)
        for found in tokens:
            present[found] = True
        used = np.flatnonzero(present)
        places = np.empty(len(present), np.intp)
        places[used] = np.arange(len(used))
        table = model.weights[used, : out.shape[1]].astype(np.float32)
        for row, found in enumerate(tokens):
            if len(found):
                out[row] = table[places[found]].mean(0)

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
        model = self._load()
        ids = np.frombuffer(model.tokens_of(word), np.uint16)
        if not len(ids):
            return None
        mean: NDArray[np.float32] = model.weights[ids, : self._identity.dimensions].mean(0, dtype=np.float32)
        return mean

    def _load(self) -> _Model:
        with self._lock:
            if self._loaded is None:
                self._loaded = _Model(*read_model(_model_folder()))
            return self._loaded


class _Model:
    """Tokens and their vectors.

    The tokenizer joins nothing across the beginning of a word or a line (a test looks at every rule that it
    has), so words are taken apart one by one, and those met before not again.
    """

    def __init__(self, tokenizer: Tokenizer, weights: NDArray[np.float16]) -> None:
        self.weights = weights
        self._tokenizer = tokenizer
        self._words = _Words(tokenizer)

    def tokens_of(self, text: str) -> bytes:
        """The numbers of a text's tokens, two bytes each."""
        text = _encodable(text)
        if _MARKUP.search(text):
            ids = self._tokenizer.encode(text, add_special_tokens=False).ids
            return np.array(ids, np.uint16).tobytes()
        if not text:
            return b""
        pieces = _PIECE.findall(WORD_START + text.replace(" ", WORD_START))
        return b"".join(map(self._words.__getitem__, pieces))


class _Words(dict[str, bytes]):
    """The tokens of words, emptied when full."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, word: str) -> bytes:
        tokens = np.array([token.id for token in self._tokenizer.model.tokenize(word)], np.uint16).tobytes()
        if len(word) <= _CACHED_LENGTH:
            if len(self) >= _KEPT_TOKENIZED:
                self.clear()
            self[word] = tokens
        return tokens


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
