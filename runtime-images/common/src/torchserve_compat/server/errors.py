"""Errors of a handler's worker, the same on both runtimes."""

from __future__ import annotations

from data_plane.errors import UpstreamBroken


class WorkerBroken(UpstreamBroken):
    """A worker died while it processed the request."""

    component = "worker"
