"""Counts the calls of a gRPC server that are not over, so that it can end when there are none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from data_plane.server.grpc.messages import MessageReceiver
from data_plane.server.grpc.unread import UnreadResponses

if TYPE_CHECKING:
    import grpc


class OpenCalls:
    """The calls of one server until their responses are sent, or their clients are gone.

    Those whose message gRPC reads are handled when it has arrived; before that, the receivers count them.
    """

    def __init__(self, receivers: Sequence[MessageReceiver], unread: UnreadResponses) -> None:
        self._receivers = receivers
        self._unread = unread
        self._handled = 0
        self._begun = 0

    def add(self, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        """Count a call until gRPC has passed its response to the kernel."""
        self._handled += 1
        self._begun += 1
        context.add_done_callback(self._end)  # type: ignore[arg-type]  # the stubs want a class of their own

    async def wait_for_none(self, idle_s: float) -> None:
        """Return when there has been no call for `idle_s`, or up to twice that."""
        idle_since: int | None = None
        while idle_since is None or self._are_some() or self._begun != idle_since:
            idle_since = None if self._are_some() else self._begun
            await asyncio.sleep(idle_s)

    def _are_some(self) -> bool:
        is_arriving = any(receiver.arriving for receiver in self._receivers)
        return self._handled > 0 or is_arriving or self._unread.is_sending()

    def _end(self, _: Any) -> None:
        self._handled -= 1
