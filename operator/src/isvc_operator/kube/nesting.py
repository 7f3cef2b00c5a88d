"""Decodes the API server's JSON, whose nesting is limited, so that it can be decoded.

A custom resource may be nested thousands of levels deep, and a decoder fails at 200: a single object would end the
watch of all of them. So levels deeper than any useful object has are cut off then. The object that remains is still too
deep to be accepted (``api.parsing``).

pydantic's decoder shares short strings between the objects of all texts, so that a cache of thousands of similar
objects has each field's name once.
"""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic_core import from_json

from isvc_operator.limits import NESTING

# One level more than an object may have, and an empty one inside it; a list of objects adds two levels.
_KEPT: Final = NESTING + 4
# Levels that any decoder can handle; most objects have fewer brackets than that in total.
_HARMLESS: Final = 300
_TEXT: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_TOKEN: Final = re.compile(_TEXT.pattern + rb"|[{}\[\]]")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"{}[]"))


def decode(text: bytes | str) -> Any:
    """Return the value of a JSON text, without the levels that are too deep; raises ValueError."""
    try:
        return from_json(text)
    except ValueError:  # too deep, or no JSON
        return from_json(shallow(text.encode() if isinstance(text, str) else text))


def shallow(text: bytes) -> bytes:
    """Return the JSON text without the levels that are too deep; the innermost objects and lists are empty then."""
    return _cut(text) if _is_deep(text) else text


def _is_deep(text: bytes) -> bool:
    """Whether brackets remain after the innermost pairs were removed that many times."""
    if text.count(b"{") + text.count(b"[") <= _HARMLESS:
        return False
    brackets = _TEXT.sub(b"", text).translate(None, _NO_BRACKETS)
    for _ in range(_KEPT):
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if not brackets:
            return False
    return True


def _cut(text: bytes) -> bytes:
    kept, depth, start = [], 0, 0
    for match in _TOKEN.finditer(text):
        if match[0] in (b"{", b"["):
            depth += 1
            if depth == _KEPT:
                kept.append(text[start : match.end()])
        elif match[0] in (b"}", b"]"):
            if depth == _KEPT:
                start = match.start()
            depth -= 1
    return b"".join([*kept, text[start:]])
