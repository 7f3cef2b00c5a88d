"""The formats of the operator's log: external text can neither forge a line nor control a terminal.

Each line names the service that the current task works on, if there is one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType, TracebackType
from typing import Final

from isvc_operator.limits import LOG_BYTES
from isvc_operator.manifests import ServiceKey
from isvc_operator.text import last_of, one_line, quoted, shortened, visible

_current: ContextVar[ServiceKey | None] = ContextVar("service", default=None)


@contextmanager
def logged_for(namespace: str, name: str) -> Iterator[None]:
    """Name this service in what is logged in the block, also by tasks that it starts."""
    token = _current.set(ServiceKey(namespace, name))
    try:
        yield
    finally:
        _current.reset(token)


def logged_service() -> ServiceKey | None:
    """Return the service that the current task works on."""
    return _current.get()


_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(service)s%(message)s"
_MARK = "| "

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class LogFormatter(logging.Formatter):
    """Formats a record as one line; lines of a traceback are marked."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        service = logged_service()
        record.service = f"{service.namespace}/{service.name}: " if service else ""
        return one_line(super().formatMessage(record), LOG_BYTES)

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802 - logging's name
        """Return the end of the traceback, which has the error."""
        return _MARK + quoted(last_of(super().formatException(ei), LOG_BYTES), LOG_BYTES)


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object: time, level, logger, message, and the service and the traceback if any."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": shortened(visible(record.getMessage()), LOG_BYTES),
        }
        if service := logged_service():
            line |= service._asdict()
        if record.exc_info:
            line["exception"] = visible(last_of(self.formatException(record.exc_info), LOG_BYTES))
        return json.dumps(line, ensure_ascii=False)


FORMATTERS: Final[Mapping[str, Callable[[], logging.Formatter]]] = MappingProxyType(
    {"text": LogFormatter, "json": JsonFormatter}
)
