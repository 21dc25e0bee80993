"""What turns text into vectors, made from the settings (spec §7)."""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.adapters.openai_embeddings import OpenAiEmbeddings
from sidecar.domain.errors import SettingsError
from sidecar.embedding.guarded import GuardedEmbedder
from sidecar.embedding.local import LocalEmbedder
from sidecar.embedding.offloaded import OffloadedEmbedder
from sidecar.settings.model import EmbeddingSettings


def make_embedder(settings: EmbeddingSettings, environ: Mapping[str, str]) -> GuardedEmbedder | None:
    """None for words only. Raises `SettingsError` where the API key is not in the environment."""
    if settings.provider == "none":
        return None
    if settings.provider == "local":
        return GuardedEmbedder(OffloadedEmbedder(LocalEmbedder()))
    if settings.base_url is None or settings.model is None:
        raise SettingsError("embeddings.base_url and embeddings.model are required")
    return GuardedEmbedder(
        OpenAiEmbeddings(
            base_url=settings.base_url,
            model=settings.model,
            api_key=_key(settings.api_key_env, environ),
            dimensions=settings.dimensions,
            query_input_type=settings.query_input_type,
            document_input_type=settings.document_input_type,
            timeout_seconds=settings.timeout_seconds,
        )
    )


def _key(name: str | None, environ: Mapping[str, str]) -> str | None:
    if name is None:
        return None
    key = environ.get(name, "").strip()
    if not key:
        raise SettingsError(f"embeddings.api_key_env: {name} is not set in the environment")
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise SettingsError(f"embeddings.api_key_env: {name} holds no key: it accepts printable ASCII only")
    return key
