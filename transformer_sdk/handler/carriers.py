"""TorchServe's own requests, each of which carries a frame as its body. In TorchServe's worker."""

from __future__ import annotations

import copy
from typing import Any

from ts.protocol.otf_message_handler import create_predict_response

from transformer_sdk.handler import frames
from transformer_sdk.handler.wire import Kind, framed


class Carriers:
    """The requests of one call by TorchServe, as its context describes them.

    Pieces of an answer go back at once, by TorchServe's socket. An answer that has begun with one is frames with heads;
    any other is a single frame without.
    """

    def __init__(self, context: Any) -> None:
        self._context = copy.copy(context)  # the handler's calls change the other
        self._begun: set[int] = set()

    def send(self, place: int, piece: frames.Piece) -> None:
        """Sends a piece of the answer to the request at this place."""
        self._begun.add(place)
        body = framed(frames.encode(piece), Kind.PIECE)
        ids = {place: self._context.request_ids[place]}
        # The last argument marks the answer as one that goes on, in its headers, where TorchServe looks for it.
        message = create_predict_response({place: body}, ids, "a piece", 200, self._context, True)
        self._context.cl_socket.sendall(message)

    def result(self, place: int, result: frames.Result) -> bytes:
        """The rest of the answer."""
        frame = frames.encode(result)
        return framed(frame) if place in self._begun else frame

    def restore(self, context: Any) -> None:
        """What the handler has set is in the answers to its requests, and not meant for those that carry them."""
        carriers = self._context
        context.request_processor, context.request_ids = carriers.request_processor, carriers.request_ids
        context.metrics.request_ids = carriers.request_ids
        context.stopping_criteria = None
