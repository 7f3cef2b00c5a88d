"""Text from outside in a line of the log: a name or a response must not look like another line. Pure."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable

from storage_initializer.limits import MAX_LOG_LINE


def one_line(text: str) -> str:
    """Return the text with unprintable characters escaped, cut at MAX_LOG_LINE."""
    cut = text if len(text) <= MAX_LOG_LINE else f"{text[:MAX_LOG_LINE]}…"
    return cut if cut.isprintable() else "".join(map(_escaped, cut))


class LogLineFormatter(logging.Formatter):
    """Formats a record as one line. The lines of a traceback are indented, so that none looks like a record.

    ``hide`` takes secrets out of a text.
    """

    def __init__(self, hide: Callable[[str], str] = str) -> None:
        super().__init__()
        self._hide = hide

    def format(self, record: logging.LogRecord) -> str:
        lines = [one_line(self._hide(record.getMessage()))]
        if record.exc_info and (error := record.exc_info[1]):
            text = self._hide("".join(traceback.format_exception(error)))
            lines += [f"  {one_line(line)}" for line in text.splitlines()]
        return "\n".join(lines)


def _escaped(character: str) -> str:
    """Escape it as Python does: a file name may not be valid text."""
    return character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode()
