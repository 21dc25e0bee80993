"""PowerContext, a record-only store over HTTP, as one more provider of the neutral contract (spec §5).

`make` is what a registry of providers calls.
"""

from sidecar.adapters.powercontext.mapping import PROVIDER_ID
from sidecar.adapters.powercontext.provider import make

__all__ = ["PROVIDER_ID", "make"]
