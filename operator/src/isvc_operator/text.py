"""Texts from outside, made fit for a status, an Event, a log or a terminal: bounded, and nothing in them acts.

What a container prints, an object is called or a caller sends may hold escape sequences, line breaks that look like
lines of ours, and characters that turn the direction of what follows. Here they become visible: ``\\x1b``, ``\\n``.
"""

from __future__ import annotations

from typing import Final

from isvc_operator.limits import LINE_BYTES

_CUT: Final = "…"
_MARK: Final = "| "
_LAYOUT: Final = ("\n", "\t")


def one_line(text: str, limit: int = LINE_BYTES) -> str:
    """The text as one line of at most ``limit`` bytes."""
    return shortened(visible(text[: limit + 1]).replace("\n", "\\n").replace("\t", "\\t"), limit)


def visible(text: str) -> str:
    """The text with escapes, as in ``repr``, for characters that would act; line breaks and tabs stay."""
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character.isprintable() or character in _LAYOUT:
        return character
    return character.encode("unicode_escape", "surrogatepass").decode()


def quoted(text: str, limit: int) -> str:
    """The end of a text of several lines; each line after the first is marked as part of what is quoted."""
    lines = visible(last_of(text, limit)).strip().splitlines()
    return f"\n{_MARK}".join(lines)


def last_of(text: str, limit: int) -> str:
    """The text's end, if it has more than ``limit`` bytes; a mark at its beginning tells that there was more."""
    encoded = text[-limit - 1 :].encode(errors="replace")
    if len(encoded) <= limit:
        return text
    return _CUT + encoded[-(limit - len(_CUT.encode())) :].decode(errors="ignore")


def shortened(text: str, limit: int) -> str:
    """The text's beginning, if it has more than ``limit`` bytes; a mark at the end tells that it goes on."""
    encoded = text[: limit + 1].encode(errors="replace")
    if len(encoded) <= limit:
        return text
    return encoded[: limit - len(_CUT.encode())].decode(errors="ignore") + _CUT
