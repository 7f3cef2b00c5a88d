"""For errors of handlers that look for "data" in a row, or make numbers of it, where the row is another instance."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from data_plane.messages import text_of
from torchserve_compat.frames import Form

_LOOKED_INTO = re.compile(
    r"'(?P<type>\w+)' object (has no attribute '(get|items|keys|pop|values)'|is not subscriptable)"
    r"|(?P<sequence>list|string) indices must be integers"
)
# By torch and numpy, of what TorchServe's BaseHandler or another makes an array of.
_MADE_A_NUMBER = re.compile(r"Could not infer dtype of dict$|.*real number, not '?dict'?$")
_TYPES = {"string": "str"}


class RowAdvice(str):
    """A note on an exception that clients read, unlike those of handlers."""

    __slots__ = ()


def row_advice(error: Exception, rows: Sequence[Any], form: Form) -> RowAdvice | None:
    """Return what to send to a handler that took a row for a dictionary, or for numbers; None for any other error."""
    text = text_of(error)
    if _MADE_A_NUMBER.match(text) and any(isinstance(row, dict) for row in rows):
        send = 'name the input neither "data" nor "body"' if form == "v2" else 'send {"instances": [[…]]}'
        return _advice("dict", "the rows themselves", send)
    found = _LOOKED_INTO.match(text)
    if not found or not isinstance(error, AttributeError | TypeError):
        return None
    kind = found["type"] or _TYPES.get(found["sequence"], found["sequence"])
    if kind not in {type(row).__name__ for row in rows}:
        return None
    send = 'name the input "data"' if form == "v2" else 'send {"instances": [{"data": …}]}'
    return _advice(kind, '"data" from its rows', send)


def _advice(kind: str, taken: str, send: str) -> RowAdvice:
    return RowAdvice(
        f"A row is what one instance of the request holds, and this one was a {kind}: for a handler that takes "
        f"{taken}, {send}."
    )


def advice_noted(error: Exception) -> str:
    """Return the advice that was noted on an exception; else an empty text."""
    return next((note for note in getattr(error, "__notes__", ()) if isinstance(note, RowAdvice)), "")
