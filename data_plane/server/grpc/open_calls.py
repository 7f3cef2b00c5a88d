"""Counts the calls of a gRPC server that are not over, so that it can end when there are none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import grpc


class OpenCalls:
    """The calls of one server from their first byte until the response has been sent, or the client is gone."""

    def __init__(self) -> None:
        self._open = 0
        self._begun = 0

    def add(self, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        """Count a call until it is over."""
        self._open += 1
        self._begun += 1
        context.add_done_callback(self._end)  # type: ignore[arg-type]  # the stubs want a class of their own

    async def wait_for_none(self, idle_s: float) -> None:
        """Return when there has been no call for `idle_s`, or up to twice that."""
        idle_since: int | None = None
        while idle_since is None or self._open or self._begun != idle_since:
            idle_since = None if self._open else self._begun
            await asyncio.sleep(idle_s)

    def _end(self, _: Any) -> None:
        self._open -= 1
