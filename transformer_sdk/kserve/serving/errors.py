"""Errors that report failures of hooks; users' hooks raise those of `kserve.errors`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from data_plane.errors import DeadlineExceeded, InferenceFailed
from data_plane.messages import Headers

COMPONENT = "transformer"


class HookFailed(InferenceFailed):
    """A hook raised an unexpected exception, or returned a value that cannot be sent."""

    component = COMPONENT


class HookRefused(HookFailed):
    """A hook raised an HTTPException of FastAPI or Starlette; its status, detail and headers are sent."""

    def __init__(self, error: Any, headers: Headers) -> None:
        text, self.details = _described(error.detail)
        super().__init__(text, error.status_code)
        self.headers = headers


class HookTimedOut(DeadlineExceeded):
    component = COMPONENT


def _described(detail: Any) -> tuple[str, Mapping[str, object]]:
    """Return a detail as text and, if possible, as JSON."""
    if isinstance(detail, str):
        return detail, {"detail": detail}
    try:
        return orjson.dumps(detail).decode(), {"detail": detail}
    except TypeError:
        return str(detail), {}
