"""Ports on loopback for TorchServe's listeners."""

from __future__ import annotations

import socket
from collections.abc import Iterable


class LoopbackPorts:
    """Hands out each port once; a port that is reserved or in use is replaced by a free one."""

    def __init__(self, reserved: Iterable[int]) -> None:
        self._taken = set(reserved)

    def take(self, wanted: int) -> int:
        port = wanted if wanted not in self._taken and _is_free(wanted) else self._any_free()
        self._taken.add(port)
        return port

    def _any_free(self) -> int:
        while True:
            with socket.create_server(("127.0.0.1", 0)) as probe:
                port = int(probe.getsockname()[1])
            if port not in self._taken:
                return port


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
