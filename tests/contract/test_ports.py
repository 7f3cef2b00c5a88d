"""The operator and the servers are distributions of their own, and agree on the ports that nobody asks for."""

from __future__ import annotations

from data_plane.ports import GRPC_PORT, HTTP_PORT
from isvc_operator.resolve.component import DEFAULT_GRPC_PORT, DEFAULT_PORT


def test_the_operator_expects_servers_where_they_listen() -> None:
    assert (DEFAULT_PORT, DEFAULT_GRPC_PORT) == (HTTP_PORT, GRPC_PORT)
