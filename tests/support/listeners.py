"""What a test's server listens on."""

from __future__ import annotations

import socket

from data_plane.model_server.life import Listeners
from data_plane.server.certificate import Tls


def listening_on(listener: socket.socket, tls: Tls | None = None) -> Listeners:
    """Return HTTP on this socket, without gRPC."""
    return Listeners(
        listener=listener,
        host="127.0.0.1",
        grpc_port=0,
        max_request_size=1_000_000,
        request_timeout_s=60,
        grace_period_s=1,
        tls=tls,
    )
