"""The one place that builds the parts and owns their lives (tier 6)."""

from sidecar.runtime.commands import index, open_local, serve
from sidecar.runtime.exporting import export

__all__ = ["export", "index", "open_local", "serve"]
