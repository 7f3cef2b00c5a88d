"""Counts responses over gRPC until clients have read them, and closes the connections of clients that do not read.

A response that is larger than its client's flow-control window waits in gRPC. A server written with grpc.aio cannot end
such a call: cancelling its task leaves the response where it is. Its connection can be closed, which ends it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from data_plane.limits import GRPC_COPIES, MIN_RATE, SMALL_RESPONSE, TRANSFER_TIMEOUT
from data_plane.server.budget import ByteBudget, Held
from data_plane.server.grpc.relay import GrpcRelay

if TYPE_CHECKING:
    import grpc

    _Context = grpc.aio.ServicerContext[bytes, bytes]

log = logging.getLogger(__name__)


class UnreadResponses:
    """The responses that the relay's clients have not read. They count in `budget`."""

    def __init__(self, budget: ByteBudget, relay: GrpcRelay) -> None:
        self._budget = budget
        self._relay = relay

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

    def _timer(self, response: bytes, context: _Context) -> asyncio.TimerHandle:
        allowed_s = TRANSFER_TIMEOUT + len(response) / MIN_RATE
        return asyncio.get_running_loop().call_later(allowed_s, self._give_up, len(response), context.peer())

    def _give_up(self, size: int, peer: str) -> None:
        log.info("a client did not read %d bytes of its response over gRPC; its connection is closed", size)
        self._relay.abort(peer)
