"""Sizes and names as messages write them. Pure."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_SHOWN = 80


def format_size(count: float) -> str:
    """Return a number of bytes in the largest unit that it reaches: ``510.1 KiB``."""
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {_UNITS[-1]}"


def quoted(name: str) -> str:
    """Return a name with unprintable characters escaped, cut where it is too long."""
    return repr(name) if len(name) <= _SHOWN else f"{name[:_SHOWN]!r}…"
