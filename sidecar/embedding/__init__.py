"""Vectors from text: the protocol of an embedding service and the bundled static model.

- `contract`: identity and the asynchronous protocol
- `local`: the bundled model, blocking, no network
- `offloaded`: the same model for asynchronous callers, on a thread of its own
- `circuit`: when a failing service is asked again
- `guarded`: any service behind a circuit
"""
