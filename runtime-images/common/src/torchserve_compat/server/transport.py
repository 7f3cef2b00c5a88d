"""The way of a batch from a model to the process that holds the handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torchserve_compat import frames

# Takes a piece of a response; returns False if no more pieces are wanted for this request.
OnPiece = Callable[[frames.Piece], bool]


class Transport(Protocol):
    async def send(
        self, batch: frames.HandlerBatch, is_wanted: Callable[[], bool], on_piece: OnPiece
    ) -> frames.HandlerResult:
        """Return the handler's result; raises ServingError if the batch did not reach the handler or got lost.

        `is_wanted`: whether any client still waits for it. Deadlines pass and clients disconnect.
        """
        ...
