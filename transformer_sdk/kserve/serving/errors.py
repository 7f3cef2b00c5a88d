"""What the failures of hooks become. Users' hooks raise those of `kserve.errors`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from data_plane.errors import DeadlineExceeded, InferenceFailed
from data_plane.messages import Headers

COMPONENT = "transformer"


class HookFailed(InferenceFailed):
    """A hook raised something that is no response to a request, or gave what cannot be sent."""

    component = COMPONENT


class HookRefused(HookFailed):
    """A hook raised the HTTPException of FastAPI or Starlette: status, detail and headers are the response's."""

    def __init__(self, error: Any, headers: Headers) -> None:
        text, self.details = _described(error.detail)
        super().__init__(text, error.status_code)
        self.headers = headers


class HookTimedOut(DeadlineExceeded):
    """A hook did not end in time."""

    component = COMPONENT


def _described(detail: Any) -> tuple[str, Mapping[str, object]]:
    """A detail as text and, where it can be, as JSON."""
    if isinstance(detail, str):
        return detail, {"detail": detail}
    try:
        return orjson.dumps(detail).decode(), {"detail": detail}
    except TypeError:
        return str(detail), {}
