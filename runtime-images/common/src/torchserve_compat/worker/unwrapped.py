"""For errors of handlers whose rows are not what they look for: what the request has, and what to send instead."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from data_plane.messages import header, text_of
from torchserve_compat.frames import Form, HandlerBatch

_LOOKED_INTO = re.compile(
    r"'(?P<type>\w+)' object (has no attribute '(get|items|keys|pop|values)'|is not subscriptable)"
    r"|(?P<sequence>list|string) indices must be integers"
)
# By torch and numpy, of what TorchServe's BaseHandler or another makes an array of.
_MADE_A_NUMBER = re.compile(r"Could not infer dtype of dict$|.*real number, not '?dict'?$")
_TYPES = {"string": "str"}
_INPUT = frozenset(("data", "body"))  # what TorchServe's handlers look for in a row
# Of what is made of a row's "data" that is not there: by Python, by PIL, and by tokenizers.
_OF_NONE = re.compile(r"\bNone(Type)?\b|cannot identify image file|text input must be of type|TextEncodeInput must be")
_RAW = ("raw", "raw-explain")
_SHOWN_NAMES = 5
_SHOWN_CHARACTERS = 40  # of a name, which may be a whole text that was sent as a form


class RowAdvice(str):
    """A note on an exception that clients read, unlike those of handlers."""

    __slots__ = ()


@contextmanager
def advising(batch: HandlerBatch, rows: Sequence[Any]) -> Iterator[None]:
    """Note on an exception of the handler that gets these rows of the batch, or of what it returns, what to send if
    that is the cause.
    """
    try:
        yield
    except Exception as error:
        advice = _body_advice(batch) or _name_advice(error, rows, batch) or _row_advice(error, rows, batch.form)
        if advice := advice or _key_advice(error, rows):
            error.add_note(advice)
        raise


def _body_advice(batch: HandlerBatch) -> RowAdvice | None:
    """Return that a request of TorchServe's API had no body."""
    bodies = [part.value for request in batch.requests for part in request.parts if part.name == "body"]
    return RowAdvice("The body of the request was empty.") if batch.form in _RAW and b"" in bodies else None


def _name_advice(error: Exception, rows: Sequence[Any], batch: HandlerBatch) -> RowAdvice | None:
    """Return how to name the input for a handler that found none; None for any other error."""
    row = next((row for row in rows if isinstance(row, dict) and row and not _INPUT & row.keys()), None)
    is_missed = isinstance(error, KeyError) and error.args[:1] in (("data",), ("body",))
    if row is None or not (is_missed or _OF_NONE.search(text_of(error))):
        return None
    found = f'{_names(row)} and neither "data" nor "body", which most handlers read'
    return RowAdvice(f"The request has {found}: {_how_to_name(batch)}.")


def _key_advice(error: Exception, rows: Sequence[Any]) -> RowAdvice | None:
    """Return what a row has that lacks the key of a KeyError; None for any other error."""
    key = error.args[0] if isinstance(error, KeyError) and error.args else None
    named = (row for row in rows if isinstance(row, dict) and row and not _INPUT & row.keys())
    row = next((row for row in named if isinstance(key, str) and key not in row), None)
    return RowAdvice(f"If the handler looked for it in a row: that has {_names(row)}.") if row else None


def _names(row: dict[Any, Any]) -> str:
    names = ", ".join(f'"{str(name)[:_SHOWN_CHARACTERS]}"' for name in islice(row, _SHOWN_NAMES))
    return f"{names}{', …' if len(row) > _SHOWN_NAMES else ''}"


def _how_to_name(batch: HandlerBatch) -> str:
    forms = [one for one in batch.requests if not any(part.name in _INPUT for part in one.parts)]
    if batch.form not in _RAW or not forms:
        return _send(batch.form)
    if any((header(one.headers, b"content-type") or b"").startswith(b"multipart/") for one in forms):
        return "name the field data"
    return (
        "the body came as a form, as curl calls whatever it sends with -d; for a text or a file, send its own "
        "Content-Type, such as -H 'Content-Type: text/plain'"
    )


def _send(form: Form) -> str:
    return 'name the input "data"' if form == "v2" else 'send {"instances": [{"data": …}]}'


def _row_advice(error: Exception, rows: Sequence[Any], form: Form) -> RowAdvice | None:
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
    return _advice(kind, '"data" from its rows', _send(form))


def _advice(kind: str, taken: str, send: str) -> RowAdvice:
    return RowAdvice(
        f"A row is what one instance of the request holds, and this one was a {kind}: for a handler that takes "
        f"{taken}, {send}."
    )


def advice_noted(error: Exception) -> str:
    """Return the advice that was noted on an exception; else an empty text."""
    return next((note for note in getattr(error, "__notes__", ()) if isinstance(note, RowAdvice)), "")
