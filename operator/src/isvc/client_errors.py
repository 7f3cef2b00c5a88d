"""What a client does wrong on a connection is for its response, and not for the log of a server of aiohttp."""

from __future__ import annotations

import logging
from typing import Final

import aiohttp

_OF_CLIENTS: Final = (aiohttp.http.HttpProcessingError, ConnectionError)


class WithoutClientErrors(logging.Filter):
    """Drops the errors of clients from a log: their texts quote what was sent, a token among it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, BaseExceptionGroup):  # of a handler with several tasks
            return error.split(_OF_CLIENTS)[1] is not None
        return not isinstance(error, _OF_CLIENTS)
