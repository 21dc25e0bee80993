"""What the settings can say and this version does not serve: refused at start, and by `config check`."""

from __future__ import annotations

from sidecar.domain.errors import SettingsError
from sidecar.settings.load import Loaded


def refuse_unserved(loaded: Loaded) -> None:
    """Raise `SettingsError`: one line that names where the value came from, the key, and what is served."""
    for agent in loaded.settings.agents.values():
        where = f"agents.{agent.id}"
        if agent.provider != "workspace":
            raise _refusal(loaded, f"{where}.provider", 'this version serves "workspace" only')


def _refusal(loaded: Loaded, key: str, what: str) -> SettingsError:
    origin = loaded.origins.get(key)
    return SettingsError(f"{origin}: {key}: {what}" if origin else f"{key}: {what}")
