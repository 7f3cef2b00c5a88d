"""Errors of a call to a predictor; every message names the predictor and its address."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from data_plane.errors import NotReady, ServingError, UpstreamBroken, UpstreamError, UpstreamTimeout

PREDICTOR = "predictor"
_OURS = frozenset({"error", "component", "request_id"})
_LONGEST = 2000  # characters of an error that is not JSON


class PredictorError(UpstreamError):
    """An error response of the predictor: keeps its status, its message and the other fields of its document."""

    def __init__(self, status: int, body: bytes, retry_after: bytes | None = None) -> None:
        document = _document(body)
        self.body = body
        self.details: Mapping[str, object] = {name: value for name, value in document.items() if name not in _OURS}
        self.retry_after_s = int(retry_after) if retry_after and retry_after.isdigit() else None
        super().__init__(_component(document), status, _message(document, body))


class _Explained(ServingError):
    """`reason` is the part of the message that says why."""

    component = PREDICTOR

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class PredictorUnreachable(_Explained, NotReady):
    """No connection could be opened: nothing was sent, and the same request may succeed later: 503."""


class PredictorBroken(_Explained, UpstreamBroken):
    """The connection broke in the middle, or the response is not one of a predictor: 502."""


class PredictorTimeout(UpstreamTimeout):
    """The whole response did not arrive in time: 504."""

    component = PREDICTOR


def _document(body: bytes) -> Mapping[str, object]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


def _component(document: Mapping[str, object]) -> str:
    part = document.get("component")
    return f"{PREDICTOR}/{part}" if isinstance(part, str) else PREDICTOR


def _message(document: Mapping[str, object], body: bytes) -> str:
    for name in ("error", "message", "detail"):
        if value := document.get(name):
            return value if isinstance(value, str) else orjson.dumps(value).decode()
    return body[:_LONGEST].decode(errors="replace").strip() or "The predictor gave no reason."
