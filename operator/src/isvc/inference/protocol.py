"""The protocols of inference: paths, and the list of a server's models. Pure."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any
from urllib.parse import quote


class InferenceProtocol(StrEnum):
    """How a model is asked: by v1, by v2 (the Open Inference Protocol), or by TorchServe's own ``/predictions``."""

    V1 = "v1"
    V2 = "v2"
    TORCHSERVE = "torchserve"

    def path(self, model: str) -> str:
        """Return the path of a model's predictions."""
        name = quote(model, safe="", errors="replace")
        return {
            InferenceProtocol.V1: f"/v1/models/{name}:predict",
            InferenceProtocol.V2: f"/v2/models/{name}/infer",
            InferenceProtocol.TORCHSERVE: f"/predictions/{name}",
        }[self]


def metadata_path(model: str) -> str:
    """Return the path of what a model says of itself, in v2."""
    return f"/v2/models/{quote(model, safe='', errors='replace')}"


def document_in(content: bytes) -> Any:
    """Return the JSON of a body; None for what is none."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def models_in(content: bytes) -> list[str] | None:
    """Return the names in a list of the v1 protocol; None for another response at its path."""
    document = document_in(content)
    models = document.get("models") if isinstance(document, dict) else None
    if not isinstance(models, list) or not all(isinstance(name, str) for name in models):
        return None
    return [name for name in models if _can_be_sent(name)]


def _can_be_sent(text: str) -> bool:
    """Whether a text has a form in UTF-8: JSON may have halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
