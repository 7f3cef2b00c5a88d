"""JSON objects in the text of an annotation or a secret."""

from __future__ import annotations

import json
from typing import Any

from isvc_operator.api.size import excess


def json_object(text: str) -> dict[str, Any] | None:
    """Return the object, or None if the text is not a JSON object, is nested too deeply or has too many values."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and excess(value) is None else None
