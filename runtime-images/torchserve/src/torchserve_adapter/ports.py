"""Ports on loopback for TorchServe's listeners."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from torchserve_adapter.rules import LOOPBACK


class LoopbackPorts:
    """Allocates each port once; a free port replaces one that is reserved or in use.

    The ports stay bound here until the end, without listening, so that no other program gets one before TorchServe.
    """

    def __init__(self, reserved: Iterable[int]) -> None:
        self._reserved = frozenset(reserved)
        self._held = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def take(self, wanted: int) -> int:
        """Return `wanted`, or a free port."""
        if wanted not in self._reserved:
            try:
                return self._hold(wanted)
            except OSError:
                pass  # in use: take any free port
        return self._hold(0)

    def _hold(self, port: int) -> int:
        holder = socket.socket(socket.AF_INET)
        try:
            holder.bind((LOOPBACK, port))
        except OSError:
            holder.close()
            raise
        # Set after the bind: TorchServe, which sets it too, may bind beside us; our own probe above may not.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.enter_context(holder)
        return int(holder.getsockname()[1])
