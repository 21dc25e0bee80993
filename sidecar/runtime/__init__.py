"""The one place that builds the parts and owns their lives (tier 6)."""

from sidecar.runtime.commands import index, open_local, serve

__all__ = ["index", "open_local", "serve"]
