"""Counts responses over gRPC until clients have read them, and closes the connections of clients that do not read.

A response that is larger than its client's flow-control window waits in gRPC. A server written with grpc.aio cannot end
such a call: cancelling its task leaves the response where it is. Its connection can be closed, which ends it.
"""

from __future__ import annotations

import asyncio
import fcntl
import functools
import ipaddress
import logging
import os
import socket
import stat
import struct
import termios
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from data_plane.limits import GRPC_COPIES, MIN_RATE, SMALL_RESPONSE, TRANSFER_TIMEOUT
from data_plane.server.budget import ByteBudget, Held

if TYPE_CHECKING:
    import grpc

    _Context = grpc.aio.ServicerContext[bytes, bytes]

log = logging.getLogger(__name__)

_LOOKED = 0.02  # seconds between two looks at what the kernel holds


class UnreadResponses:
    """The responses that clients of the server on `port` have not read. They count in `budget`."""

    def __init__(self, budget: ByteBudget) -> None:
        self.port = 0
        self._budget = budget

    def hold(self, response: bytes, context: _Context) -> None:
        """Count the one response of a call, which is sent next, until the call is over; raises BuffersFull."""
        if len(response) <= SMALL_RESPONSE:
            return
        held = Held(self._budget)
        held.add(len(response) * GRPC_COPIES)
        timer = self._timer(response, context)

        def is_over(_: _Context) -> None:
            timer.cancel()
            held.release()

        context.add_done_callback(is_over)  # type: ignore[arg-type]  # the stubs want a class of their own

    async def write(self, response: bytes, context: _Context, held: Held) -> None:
        """Send one response of a stream; return when the client has read it. `held` counts it until then.

        Raises BuffersFull.
        """
        size = len(response) * GRPC_COPIES if len(response) > SMALL_RESPONSE else 0
        held.add(size)
        timer = self._timer(response, context)
        try:
            await context.write(response)
        except Exception:  # noqa: BLE001 - gRPC's own, where the connection is gone before the call is cancelled
            raise asyncio.CancelledError from None
        finally:
            timer.cancel()
            held.give_back(size)

    async def left(self, seconds: float) -> None:
        """Wait until the kernel holds no response any more: gRPC takes one for sent, and closes its connection."""
        ends = asyncio.get_running_loop().time() + seconds
        while _is_sending(self.port) and asyncio.get_running_loop().time() < ends:  # noqa: ASYNC110 - the kernel does not tell
            await asyncio.sleep(_LOOKED)

    def _timer(self, response: bytes, context: _Context) -> asyncio.TimerHandle:
        allowed_s = TRANSFER_TIMEOUT + len(response) / MIN_RATE
        return asyncio.get_running_loop().call_later(allowed_s, self._give_up, len(response), context.peer())

    def _give_up(self, size: int, peer: str) -> None:
        log.info("a client did not read %d bytes of its response over gRPC; its connection is closed", size)
        closing = functools.partial(close_connection, peer, self.port)
        asyncio.get_running_loop().run_in_executor(None, closing)  # it checks every open file


def address_of(peer: str) -> tuple[str, int]:
    """Return the IP address and the port of a peer, which gRPC writes as `ipv4:127.0.0.1:50000`."""
    return _normal(*unquote(peer).partition(":")[2].rsplit(":", 1))


def close_connection(peer: str, port: int) -> None:
    """Close the connection between `peer` and this process' port."""
    wanted = address_of(peer)
    for connection in _connections(port):
        if _ends(connection) == (port, wanted):
            connection.shutdown(socket.SHUT_RDWR)


def _connections(port: int) -> Iterator[socket.socket]:
    """Yield each open connection of this process' port, by a descriptor that is closed afterwards."""
    for number in os.listdir("/dev/fd"):  # noqa: PTH208 - numbers
        try:
            file = os.dup(int(number))  # a descriptor that nobody else closes
        except OSError:
            continue
        if not stat.S_ISSOCK(os.fstat(file).st_mode):
            os.close(file)
            continue
        with socket.socket(fileno=file) as connection:
            if (ends := _ends(connection)) and ends[0] == port:
                yield connection


def _is_sending(port: int) -> bool:
    """Whether the kernel holds bytes that a client has not received."""
    size = bytes(struct.calcsize("i"))
    return any(any(fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, size)) for connection in _connections(port))


def _ends(connection: socket.socket) -> Any:
    """Return the local port and the remote address; None if it is no TCP connection."""
    try:
        if connection.family not in (socket.AF_INET, socket.AF_INET6):
            return None
        return connection.getsockname()[1], _normal(*connection.getpeername()[:2])
    except OSError:
        return None


def _normal(host: str, port: str | int) -> tuple[str, int]:
    address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address), int(port)
