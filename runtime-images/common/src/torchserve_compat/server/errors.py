"""Errors of a handler's worker, the same on both runtimes."""

from __future__ import annotations

from data_plane.errors import UpstreamBroken


def cure_of(missing: str | None) -> str:
    """Return what to do about a handler that could not be loaded, for lack of a module or not."""
    if missing:
        return f"Add {missing} to the archive's requirements.txt with install_py_dep_per_model=true, or to the image."
    return "Correct the handler or the archive and upload it again."


class WorkerBroken(UpstreamBroken):
    """A worker died while it processed the request."""

    component = "worker"
