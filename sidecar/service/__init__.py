"""Use cases: binding, search, reading, health and indexing. No HTTP, no JSON names."""
