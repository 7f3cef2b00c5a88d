"""Ports of loopback for servers that tests start, which no other test and no other program is given meanwhile."""

from __future__ import annotations

import atexit
import socket

_held: dict[int, socket.socket] = {}


def free_port() -> int:
    """A port that nobody listens on. It stays bound here until the tests end, as a server takes seconds to open it
    and the kernel would give it to whoever asks in between."""
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    # Set after the bind, so that the server, which sets it too, may bind beside us; a bind to any port still may not.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    port = int(holder.getsockname()[1])
    _held[port] = holder
    return port


def release(port: int) -> int:
    """The port, not bound any more: for a program that looks whether somebody has it."""
    _held.pop(port).close()
    return port


@atexit.register
def _release_all() -> None:
    for port in list(_held):
        release(port)
