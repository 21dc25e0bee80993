"""Where the configuration file of a user is looked for when nobody names one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def config_file(environ: Mapping[str, str], home: Path) -> Path:
    """`$XDG_CONFIG_HOME/memory-sidecar/config.toml`, on every platform; `~/.config` where that is unset."""
    base = environ.get("XDG_CONFIG_HOME", "").strip()
    folder = Path(base) if base.startswith("/") else home / ".config"
    return folder / "memory-sidecar" / "config.toml"
