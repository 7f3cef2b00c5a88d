"""Ports for servers that tests start, which no other test and no other program is given meanwhile."""

from __future__ import annotations

import atexit
import contextlib
import random
import socket

_FIRST, _KERNELS = 20_000, 30_000  # Linux gives away ports from 32768 on
_held: dict[int, socket.socket] = {}


def free_port() -> int:
    """A port that nobody listens on. It stays bound here until the tests end, as a server takes seconds to open it
    and the kernel would give it to whoever asks in between.

    It is free on all addresses: a connection of another program to another machine may have its number, too, and then
    no server can open it on all of them.
    """
    holder = socket.socket()
    holder.bind(("", 0))
    # Set after the bind, so that the server, which sets it too, may bind beside us; a bind to any port still may not.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    port = int(holder.getsockname()[1])
    _held[port] = holder
    return port


def unbound_port() -> int:
    """A port that nobody listens on and that is not bound here, for a program that looks whether somebody has it.

    It is below the ones that the kernel gives away, so nobody is given it before the program opens it.
    """
    while True:
        port = random.randrange(_FIRST, _KERNELS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port


@atexit.register
def _release_all() -> None:
    for holder in _held.values():
        holder.close()
