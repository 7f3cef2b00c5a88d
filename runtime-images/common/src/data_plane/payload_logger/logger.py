"""The payload logger of a server: gets each request and its response, and returns at once."""

from __future__ import annotations

import logging
import ssl
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from data_plane.limits import LOG_SENDERS, MAX_SINK_RESPONSE
from data_plane.log_lines import one_line
from data_plane.messages import Headers, header
from data_plane.payload_logger.events import EventWriter, PayloadKind
from data_plane.payload_logger.exchange import LoggedExchange
from data_plane.payload_logger.queue import PayloadQueue
from data_plane.payload_logger.settings import BadSettings, LoggerSettings, Mode
from data_plane.tls import trusting

if TYPE_CHECKING:
    from data_plane.payload_logger.sender import Sender

log = logging.getLogger(__name__)

_HASHES = 2**32


class PayloadLogger:
    """Logs the payloads of one server process, which hold at most `max_bytes`; `source` is the pod's name.

    Its metrics are in the registry. Raises BadSettings for certificates that cannot be read.
    """

    def __init__(
        self,
        settings: LoggerSettings,
        source: str,
        *,
        registry: CollectorRegistry,
        max_bytes: int,
    ) -> None:
        self._settings = settings
        self._writer = EventWriter(settings, source)
        self._queue = PayloadQueue(registry, settings.shown_url, max_bytes)
        self._logs_requests = settings.mode is not Mode.RESPONSE
        self._logs_responses = settings.mode is not Mode.REQUEST
        self._logged_hashes = int(settings.fraction * _HASHES)
        self._tls = _tls(settings) if settings.url.startswith("https:") else None
        self._sender: Sender | None = None

    def start(self) -> None:
        """Start to send, in the running event loop."""
        from data_plane.client.http import HttpClient  # aiohttp takes a while to import
        from data_plane.client.sessions import Limits
        from data_plane.payload_logger.sender import Sender

        url, tls = self._settings.url, self._tls
        limits = Limits(connections=LOG_SENDERS, response_bytes=MAX_SINK_RESPONSE)
        http = HttpClient(tls=lambda: tls, limits=limits) if tls else HttpClient(limits=limits)
        self._sender = Sender(self._queue, http, url=url, writer=self._writer)
        log.info("payloads (%s) are sent to %s", self._settings.mode.value, one_line(self._settings.shown_url))

    async def close(self, timeout_s: float) -> None:
        """Send what waits, at most for `timeout_s`, and drop the rest."""
        if self._sender:
            await self._sender.close(timeout_s)
        self._queue.log_losses(at_end=True)

    def begin(
        self, headers: Headers, request_id: str, content_type: bytes, pieces: Sequence[bytes]
    ) -> LoggedExchange | None:
        """Log a request; return what logs its response, or None if the request is not in the sample."""
        own_id = header(headers, b"ce-id")
        event_id = own_id.decode("latin-1") if own_id else request_id
        if self._logged_hashes < _HASHES and zlib.crc32(event_id.encode()) >= self._logged_hashes:
            return None
        exchange = LoggedExchange(self._queue, event_id, self._writer.selected(headers), self._logs_responses)
        if self._logs_requests:
            exchange.log(PayloadKind.REQUEST, content_type, pieces)
        return exchange


def _tls(settings: LoggerSettings) -> ssl.SSLContext:
    """Return what checks the sink's certificate. As with KServe, a missing file means the system's certificates."""
    file = settings.ca_file
    if file and not Path(file).exists():
        log.warning("%s does not exist: the sink's certificate is checked with those of the system", one_line(file))
        file = None
    try:
        return trusting(file, verify=not settings.tls_skip_verify)
    except OSError as error:  # OpenSSL's, which names no file
        raise BadSettings(
            f"The certificates for the payload logger, {file}, cannot be read: {error}; write certificates in PEM."
        ) from error
