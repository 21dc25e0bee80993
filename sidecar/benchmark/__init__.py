"""Measures a running service from outside, over the wire, as any client would ask it.

`python -m sidecar.benchmark retrieval WORKSPACE QUERIES.jsonl` says how much of what questions ask for is
found (README, "Measure what is found"). Nothing here reaches into the engine.
"""
