"""JSON of the API server, made shallow enough to be decoded.

A custom resource may hold objects inside of one another in thousands of levels, and Python's decoder gives up at a
thousand: then a single object would end the watch of them all. So what is nested deeper than any object of use is left
out before the text is decoded. Whoever reads the object sees that it is too deep still (``api.size``).
"""

from __future__ import annotations

import re
from typing import Final

from isvc_operator.limits import NESTING

# A level more than an object may have, and an empty one in it, inside of the two levels of a list.
_KEPT: Final = NESTING + 4
# So many levels nobody minds, and most objects have no more brackets than that.
_HARMLESS: Final = 300
_TEXT: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_TOKEN: Final = re.compile(_TEXT.pattern + rb"|[{}\[\]]")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"{}[]"))


def shallow(text: bytes) -> bytes:
    """The JSON text without what is nested too deeply; the innermost objects and lists that are kept are empty."""
    return _cut(text) if _is_deep(text) else text


def _is_deep(text: bytes) -> bool:
    """Whether brackets are left when the innermost pairs were taken out so many times."""
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
