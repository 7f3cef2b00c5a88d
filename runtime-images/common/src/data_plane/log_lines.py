"""Log formatting that escapes text from clients, which cannot end a line, start another or control a terminal."""

from __future__ import annotations

import logging
import sys

from data_plane.limits import MAX_LOG_TEXT

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s %(message)s"
_CONTINUED = "    "  # before each further line of a record: no line of it can pass for another record


def one_line(text: str) -> str:
    """`text` on one line, with what is not for printing as Python writes it: `\\n`, `\\x1b`, `\\u202e`."""
    return _escaped(_cut(text))


class OneLineFormatter(logging.Formatter):
    """Formats a record with its message on one line and a traceback indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = self._message(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:  # noqa: N802 - logging's name
        return _indented(_CONTINUED + _cut(super().formatException(ei)))  # type: ignore[arg-type]

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - logging's name
        return _indented(_CONTINUED + super().formatStack(stack_info))

    def _message(self, text: str) -> str:
        return one_line(text)


class IndentingFormatter(OneLineFormatter):
    """Formats the records of handlers: a message may have several lines, of which all but the first are indented."""

    def _message(self, text: str) -> str:
        return _indented(text)


def configure_logging() -> None:
    """Records of INFO and above go to standard output."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(OneLineFormatter(_FORMAT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _escaped(text: str) -> str:
    return text if text.isprintable() else "".join(map(_printable, text))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LOG_TEXT else f"{text[:MAX_LOG_TEXT]}… ({len(text)} characters)"


def _printable(character: str) -> str:
    if character.isprintable() or character == "\t":
        return character
    return character.encode("unicode_escape").decode()


def _indented(text: str) -> str:
    return f"\n{_CONTINUED}".join(map(_escaped, text.split("\n")))
