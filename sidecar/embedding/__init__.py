"""Vectors from text: the protocol of an embedding service and the bundled static model.

- `contract`: identity, purpose and the asynchronous protocol
- `local`: the bundled model, blocking, no network
- `offloaded`: the same model for asynchronous callers, on a thread of its own
"""
