"""Makes texts from outside safe for a status, an Event, a log or a terminal: limits their length, escapes characters.

The output of a container, the name of an object or a client's request may contain escape sequences, line breaks that
forge lines of ours, and characters that change the text direction. They are replaced by ``\\x1b``, ``\\n``.
"""

from __future__ import annotations

from typing import Final

from isvc_operator.limits import LINE_BYTES

_CUT: Final = "…"
_MARK: Final = "| "
_LAYOUT: Final = ("\n", "\t")


def one_line(text: str, limit: int = LINE_BYTES) -> str:
    """Return the text as one line of at most ``limit`` bytes."""
    return shortened(visible(text[: limit + 1]).replace("\n", "\\n").replace("\t", "\\t"), limit)


def unwritten(error: OSError) -> str:
    """Return what is said of an output that cannot be written, as on a full disk."""
    return one_line(f"the output cannot be written: {error.strerror or error}")


def visible(text: str) -> str:
    """Escape control characters as ``repr`` does; line breaks and tabs stay."""
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character.isprintable() or character in _LAYOUT:
        return character
    return character.encode("unicode_escape", "surrogatepass").decode()


def block(text: str) -> str:
    """Return the text without the blank lines around it; unlike with ``strip``, its first line keeps its indent."""
    return text.rstrip().lstrip("\r\n")


def quoted(text: str, limit: int) -> str:
    """Return the end of a text of several lines; each line after the first one is marked as quoted."""
    lines = block(visible(last_of(text, limit))).splitlines()
    return f"\n{_MARK}".join(lines)


def last_of(text: str, limit: int) -> str:
    """Return the last ``limit`` bytes of the text; a mark at the beginning shows that it was truncated."""
    encoded = text[-limit - 1 :].encode(errors="replace")
    if len(encoded) <= limit:
        return text
    return _CUT + encoded[-(limit - len(_CUT.encode())) :].decode(errors="ignore")


def shortened(text: str, limit: int) -> str:
    """Return the first ``limit`` bytes of the text; a mark at the end shows that it was truncated."""
    encoded = text[: limit + 1].encode(errors="replace")
    if len(encoded) <= limit:
        return text
    return encoded[: limit - len(_CUT.encode())].decode(errors="ignore") + _CUT
