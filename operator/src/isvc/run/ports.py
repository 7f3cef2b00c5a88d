"""Ports of this machine that others may have."""

from __future__ import annotations

import errno
import socket

from isvc.run.container import LOOPBACK
from isvc.run.errors import RunFailed

_LAST_PORT = 65535


def require_free(port: int, flag: str) -> None:
    """Raise RunFailed if nobody can listen on a port now; ``flag`` names another one."""
    try:
        _listen(port)
    except OSError as error:
        raise unusable(port, flag, error) from error


def unusable(port: int, flag: str, error: OSError) -> RunFailed:
    """Return what is said of a port on which nobody can listen."""
    why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
    return RunFailed(f"port {port} {why}; choose another one: {flag} {_free_port(port)}")


def _free_port(port: int) -> int:
    """Return the next port that nobody has."""
    other: int
    for other in (*range(port + 1, _LAST_PORT + 1), *range(port - 1, 0, -1)):
        try:
            _listen(other)
        except OSError:
            continue
        return other
    return port


def _listen(port: int) -> None:
    socket.create_server((LOOPBACK, port)).close()
