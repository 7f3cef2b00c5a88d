"""Service accounts and secrets that a service's storage refers to by name, and what their texts say."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from isvc_operator.api.size import excess
from isvc_operator.errors import InvalidCredentials
from isvc_operator.manifests import Manifest, name_of


class ObjectReference(NamedTuple):
    """An object in the service's namespace."""

    kind: str
    name: str


Objects = Mapping[ObjectReference, Manifest | None]
"""The objects that were read; None for one that does not exist."""


def read_key(secret: Manifest, key: str) -> str | None:
    """Return the text under a key of a secret, or None if it has no such key."""
    stored = (secret.get("data") or {}).get(key)
    try:
        return None if stored is None else base64.b64decode(stored, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise InvalidCredentials(
            f"key {key} of secret {name_of(secret)} is not text; store it again as it was issued"
        ) from None


def json_object(text: str) -> dict[str, Any] | None:
    """Return the object, or None if the text is not a JSON object, is nested too deeply or has too many values."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and excess(value) is None else None
