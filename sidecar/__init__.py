"""Memory Sidecar: memory search beside an agent, over its existing Markdown files, read-only."""

__version__ = "0.1.0"
