"""Why a model file cannot be served. Errors of requests are ServingErrors of the data plane."""

from __future__ import annotations

from pathlib import Path


class CannotLoad(Exception):
    """The file, or the model-config.yaml beside it, cannot be served as it is."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(f"{path}: {reason}")
