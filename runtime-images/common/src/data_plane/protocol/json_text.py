"""Read JSON texts of any size within bounds. Pure.

orjson and msgspec hold the interpreter lock for the whole call, also in a thread: a text of 6.4 MB holds up the event
loop for up to 0.3 s.
"""

from __future__ import annotations

import gc
import re
from typing import Any

import orjson

from data_plane.errors import InvalidRequest
from data_plane.limits import MAX_JSON_CONTAINERS

_PYTHON = re.compile(rb"\s*[{\[]\s*'")  # what print shows of a dictionary
_NO_UTF8 = "str is not valid UTF-8"  # orjson's words, with a place that is always the first
_GZIP = b"\x1f\x8b"
_WINDOW = 256 * 1024  # bytes in which strings are looked for at a time


def loads(text: bytes) -> Any:
    """Decode as orjson.loads does; raises InvalidRequest for too many lists and objects."""
    if len(text) > MAX_JSON_CONTAINERS and _is_begun(text) and (found := _containers(text)) > MAX_JSON_CONTAINERS:
        raise InvalidRequest(
            f"The JSON has {found} lists and objects; {MAX_JSON_CONTAINERS} are served in one request. "
            "Send several requests, or tensors flat or in binary form."
        )
    collects = gc.isenabled()
    gc.disable()  # each collection would look through all that has been decoded, which doubles the time
    try:
        return orjson.loads(text)
    finally:
        if collects:
            gc.enable()


def fault(text: bytes, error: orjson.JSONDecodeError) -> str:
    """Return what `loads` found that a text is instead of JSON."""
    if not error.msg.startswith(_NO_UTF8):
        return f"not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})"
    return "not valid JSON: it is not in UTF-8" if _is_begun(text) else "not JSON but bytes of another kind"


def advice_on(text: bytes, *, takes_files: bool = True) -> str:
    """Return what to do with a body that is not JSON at all, such as a picture, a form or a text; empty for JSON."""
    if _is_begun(text):
        return " In JSON, texts and names have double quotes." if _PYTHON.match(text) else ""
    if text.startswith(_GZIP):
        return " It is compressed by gzip; send it uncompressed."
    if text.startswith(b"@"):
        return " It is the name of a file in place of its content; with curl, send the file with -T."
    if not takes_files:
        return ""
    return (
        " A handler gets a file as it is from /predictions/<model>, or as "
        '{"instances": [{"data": "<base64>"}]}; a model without a handler takes numbers.'
    )


def _is_begun(text: bytes) -> bool:
    """Return whether a text is empty, or begins as an object or a list, in UTF-8 or UTF-16."""
    return text.lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n")[:1] in (b"", b"{", b"[")


def _containers(text: bytes) -> int:
    """Return the number of lists and objects; the brackets in strings count only if there are few."""
    found = text.count(b"[") + text.count(b"{")
    if found <= MAX_JSON_CONTAINERS:
        return found
    found, is_outside = 0, 1  # of a string
    without_escapes = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    for start in range(0, len(without_escapes), _WINDOW):
        pieces = without_escapes[start : start + _WINDOW].split(b'"')
        between_strings = b"".join(pieces[1 - is_outside :: 2])
        found += between_strings.count(b"[") + between_strings.count(b"{")
        is_outside ^= (len(pieces) - 1) % 2
    return found
