"""The payload logger that the environment asks for."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from data_plane.limits import LOGGED_SHARE, MAX_LOGGED_BYTES
from data_plane.model_server import container
from data_plane.model_server.errors import ConfigurationError
from data_plane.payload_logger.logger import PayloadLogger
from data_plane.payload_logger.settings import BadSettings, settings_of
from data_plane.server.metrics import ServerMetrics


def payload_logger(environment: Mapping[str, str], metrics: ServerMetrics, processes: int = 1) -> PayloadLogger | None:
    """Return the logger of one of this many processes, or None; raises ConfigurationError."""
    try:
        if (settings := settings_of(environment)) is None:
            return None
        most = min(MAX_LOGGED_BYTES, int(container.memory() * LOGGED_SHARE)) // processes
        return PayloadLogger(settings, socket.gethostname(), registry=metrics.registry, max_bytes=most)
    except BadSettings as error:
        raise ConfigurationError(str(error)) from error
