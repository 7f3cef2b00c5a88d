"""Why a model file cannot be served, now or any more. Errors of requests are ServingErrors of the data plane."""

from __future__ import annotations

from pathlib import Path

from data_plane.errors import InferenceFailed


class CannotLoad(Exception):
    """The file, or the model-config.yaml beside it, cannot be served as it is."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(f"{path}: {reason}")


class GpuLost(InferenceFailed):
    """A request failed in a way after which nothing of this process can use the GPU."""
