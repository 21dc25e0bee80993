"""A small typed client of a running service, over its Unix socket or over TCP."""

from sidecar.client.http import Readiness, ServiceUnreachable, SidecarClient, discover

__all__ = ["Readiness", "ServiceUnreachable", "SidecarClient", "discover"]
