"""Suggestions for a name that does not exist. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_SHOWN = 5


def suggestion(name: str, there: Iterable[str]) -> str:
    """Return the nearest of the existing names, else the first few of them."""
    names = sorted(set(there))
    if close := get_close_matches(name, names, n=1):
        return f"did you mean {close[0]}?"
    if not names:
        return "nothing is there"
    shown = ", ".join(names[:_SHOWN])
    return f"there is {shown}" + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
