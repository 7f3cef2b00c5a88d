"""What a call to a predictor can end in; every message names the predictor and the address that was tried.

PredictorError          the predictor's own status and message
PredictorUnreachable    503, nothing was sent
PredictorBroken         502, it answered with something that is no response
PredictorTimeout        504
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from data_plane.errors import NotReady, UpstreamBroken, UpstreamError, UpstreamTimeout

PREDICTOR = "predictor"
_OURS = frozenset({"error", "component", "request_id"})
_LONGEST = 2000  # characters of an error that is no JSON


class PredictorError(UpstreamError):
    """The predictor refused: its status, its words and all else that its error says are kept."""

    def __init__(self, status: int, body: bytes, retry_after: bytes | None = None) -> None:
        document = _document(body)
        self.body = body
        self.details: Mapping[str, object] = {name: value for name, value in document.items() if name not in _OURS}
        self.retry_after_s = int(retry_after) if retry_after and retry_after.isdigit() else None
        super().__init__(_who(document), status, _message(document, body))


class PredictorUnreachable(NotReady):
    """No connection: nothing was sent, so the same request may work in a moment."""

    component = PREDICTOR


class PredictorBroken(UpstreamBroken):
    """The connection broke in the middle, or what came is not what a predictor says."""

    component = PREDICTOR


class PredictorTimeout(UpstreamTimeout):
    """There was no whole response in time."""

    component = PREDICTOR


def _document(body: bytes) -> Mapping[str, object]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


def _who(document: Mapping[str, object]) -> str:
    """One that says which part of it failed is quoted."""
    part = document.get("component")
    return f"{PREDICTOR}/{part}" if isinstance(part, str) else PREDICTOR


def _message(document: Mapping[str, object], body: bytes) -> str:
    for name in ("error", "message", "detail"):
        if said := document.get(name):
            return said if isinstance(said, str) else orjson.dumps(said).decode()
    return body[:_LONGEST].decode(errors="replace").strip() or "The predictor gave no reason."
