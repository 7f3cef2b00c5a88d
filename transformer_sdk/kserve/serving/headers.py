"""Headers that hooks set on a result or an error. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from data_plane.messages import Headers, is_header
from transformer_sdk.kserve.serving.errors import HookFailed

# Set by the server, or specific to the connection to the predictor.
_NOT_PASSED = frozenset({"content-length", "content-type", "connection", "transfer-encoding", "x-request-id", "date",
                         "server", "keep-alive"})  # fmt: skip


def encode(given: Mapping[str, str]) -> Headers:
    """Encode headers without those that the server sets; raises HookFailed for an invalid header."""
    return tuple(_encoded(name, value) for name, value in given.items() if name.lower() not in _NOT_PASSED)


def content_type(given: Mapping[str, str], otherwise: bytes) -> bytes:
    """Return the content type that hooks set, or `otherwise`; raises HookFailed for an invalid one."""
    types = (_encoded(name, value)[1] for name, value in given.items() if name.lower() == "content-type")
    return next(types, otherwise)


def _encoded(name: str, value: Any) -> tuple[bytes, bytes]:
    text = str(value)
    if not is_header(name, text):
        raise HookFailed(f"A hook set the header {name!r} to {text!r}, which HTTP cannot carry.")
    return name.lower().encode(), text.strip().encode("latin-1", "replace")
