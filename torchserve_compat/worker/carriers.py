"""TorchServe's own requests, each of which carries a frame as its body. In TorchServe's worker."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from ts.protocol.otf_message_handler import create_predict_response

from torchserve_compat import frames
from torchserve_compat.wire import Kind, framed
from torchserve_compat.worker.continuous import RunningBatch

_BODY = "body"


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


class CarriedBatch:
    """A running batch whose requests TorchServe's carry; it calls once for each step, with the carriers of all of them.

    A carrier has its body in the first of its calls only, and gets frames with heads. TorchServe sends no head of an
    answer that ends in its first call: such a carrier is kept for another, which has nothing more for it.
    """

    def __init__(self, batch: RunningBatch[str]) -> None:
        self._batch = batch

    def step(self, requests: list[dict[str, Any]], context: Any) -> list[bytes]:
        """What goes back to each carrier; `context` says by its criteria which of them are done."""
        ids = list(context.request_ids.values())
        carriers = Carriers(context)
        self._batch.keep(ids)
        said: dict[str, frames.Piece | frames.Result] = dict(self._refused(ids, requests))
        said.update(self._batch.step(context) if self._batch else ())
        carriers.restore(context)
        done = [
            carrier not in said or (isinstance(said[carrier], frames.Result) and _BODY not in request)
            for carrier, request in zip(ids, requests, strict=True)
        ]
        context.stopping_criteria = [lambda _, is_done=is_done: is_done for is_done in done]
        return [_framed(said[carrier]) if carrier in said else b"" for carrier in ids]

    def _refused(self, ids: list[str], requests: list[dict[str, Any]]) -> Iterator[tuple[str, frames.Result]]:
        """Lets those join that are new; the answers to those that cannot be read."""
        for carrier, request in zip(ids, requests, strict=True):
            if _BODY in request and (refusal := self._batch.join(carrier, frames.decode_batch(request[_BODY]))):
                yield carrier, refusal


def _framed(said: frames.Piece | frames.Result) -> bytes:
    return framed(frames.encode(said), Kind.PIECE if isinstance(said, frames.Piece) else Kind.WHOLE)
