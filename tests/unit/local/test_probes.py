"""Probes over HTTP, and what the server that is probed sees of them."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any, cast

import aiohttp
import pytest

from isvc.run.container import Probe
from isvc.run.probes import check_of


def serve_once(listener: socket.socket, status: int, body: bytes) -> bytes:
    """Answer one request, its parts a while apart; what comes then, which is nothing if all is in order."""
    connection, _ = listener.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(f"HTTP/1.1 {status} Some\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        for part in (body[:1], body[1:]):
            time.sleep(0.05)
            connection.sendall(part)
        return connection.recv(4096)


async def probed(listener: socket.socket) -> str:
    probe, unused = Probe({"httpGet": {"port": listener.getsockname()[1]}}, timeout=30), cast(Any, None)
    async with aiohttp.ClientSession() as session:
        return await check_of(probe, unused, unused, session)()


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (200, b"{}", ""),
        (503, b" no\nmodel ", "503 no\\nmodel"),
        (503, b"x" * 10_000, f"503 {'x' * 1021}…"),
    ],
)
async def test_the_connection_of_a_probe_ends_in_order(status: int, body: bytes, reason: str) -> None:
    """A server that gets a reset for what it has sent logs that, once for each probe."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        served = asyncio.create_task(asyncio.to_thread(serve_once, listener, status, body))

        assert await probed(listener) == reason
        assert await served == b""


async def test_a_server_with_a_long_body_is_good_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        served = asyncio.create_task(asyncio.to_thread(serve_once, listener, 200, b"x" * 50_000_000))

        assert await probed(listener) == ""
        with pytest.raises(ConnectionError):  # the rest is not read
            await served
