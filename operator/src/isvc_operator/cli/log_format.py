"""The format of the operator's log: external text can neither forge a line nor control a terminal."""

from __future__ import annotations

import logging
from types import TracebackType

from isvc_operator.limits import LOG_BYTES
from isvc_operator.text import last_of, one_line, quoted

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_MARK = "| "

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class LogFormatter(logging.Formatter):
    """Formats a record as one line; lines of a traceback are marked."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the record as one line."""
        return one_line(super().formatMessage(record), LOG_BYTES)

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802 - logging's name
        """Return the end of the traceback, which has the error."""
        return _MARK + quoted(last_of(super().formatException(ei), LOG_BYTES), LOG_BYTES)
