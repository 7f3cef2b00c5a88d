"""What a client does wrong on a connection is for its response, and not for the log of a server of aiohttp."""

from __future__ import annotations

import logging

import aiohttp


class WithoutClientErrors(logging.Filter):
    """Drops the errors of clients from a log: their texts quote what was sent, a token among it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged."""
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, aiohttp.http.HttpProcessingError | ConnectionError)
