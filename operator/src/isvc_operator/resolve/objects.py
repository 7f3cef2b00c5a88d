"""Objects that a service's storage refers to by name, a service account and secrets, and how they are read."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, NamedTuple

from isvc_operator.errors import InvalidCredentials

Manifest = Mapping[str, Any]


class Reference(NamedTuple):
    """An object in the service's namespace."""

    kind: str
    name: str


Objects = Mapping[Reference, Manifest | None]
"""What was read; None for what does not exist."""


def annotations_of(body: Manifest) -> Mapping[str, str]:
    """The object's annotations."""
    return body["metadata"].get("annotations") or {}


def read_key(secret: Manifest, key: str) -> str | None:
    """The text under a key of a secret; None where it has no such key."""
    stored = (secret.get("data") or {}).get(key)
    try:
        return None if stored is None else base64.b64decode(stored, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        name = secret["metadata"]["name"]
        raise InvalidCredentials(f"key {key} of secret {name} is no text; store it again as it was issued") from None
