"""An embedding service of your own: LitServe speaks the OpenAI shape, any model of yours answers.

    python3 -m venv .venv-embeddings && .venv-embeddings/bin/pip install . litserve
    .venv-embeddings/bin/python examples/embeddings/server.py --port 8100

Then, in the configuration of the sidecar:

    [embeddings]
    provider = "openai-compatible"
    base_url = "http://127.0.0.1:8100/v1"
    model = "wordllama"

This one serves the model that the sidecar bundles, so that it runs without a download. Put your own model
into `setup` and `predict`.
"""

from __future__ import annotations

import argparse

import litserve

from sidecar.embedding.local import LocalEmbedder


class Model(litserve.LitAPI):
    """Texts in, one vector a text out."""

    def setup(self, device: str) -> None:  # noqa: ARG002
        self.embedder = LocalEmbedder()

    def predict(self, inputs: str | list[str]) -> list[list[float]]:
        texts = [inputs] if isinstance(inputs, str) else inputs
        return [vector.tolist() for vector in self.embedder.embed(texts)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8100)
    port = parser.parse_args().port
    server = litserve.LitServer(Model(spec=litserve.OpenAIEmbeddingSpec()), accelerator="cpu")
    server.run(host="127.0.0.1", port=port, generate_client_file=False)


if __name__ == "__main__":
    main()
