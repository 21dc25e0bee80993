"""Memory Sidecar: memory search beside an agent, over its existing Markdown files, read-only."""

from pathlib import Path

__version__ = "0.1.0"

# The folders `adapters` and `config` of the repository are installed as `sidecar.adapters` and
# `sidecar.config`. In a checkout they stand beside this package: `python -m sidecar` there finds them so.
_checkout = Path(__file__).parents[1]
if (_checkout / "pyproject.toml").is_file() and (_checkout / "adapters").is_dir():
    __path__.append(str(_checkout))
