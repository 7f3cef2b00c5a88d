"""Why a model file is not served. What goes wrong with a request is a ServingError of the SDK."""

from __future__ import annotations

from pathlib import Path


class CannotLoad(Exception):
    """The file, or the model-config.yaml beside it, cannot be served as it is."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(f"{path}: {reason}")
