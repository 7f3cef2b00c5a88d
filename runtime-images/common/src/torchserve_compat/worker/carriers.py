"""TorchServe's own requests, each of which carries a frame as its body. Runs in TorchServe's worker."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from ts.protocol.otf_message_handler import create_predict_response

from torchserve_compat import frames
from torchserve_compat.wire import Kind, framed, framed_output
from torchserve_compat.worker.continuous import RunningBatch

_BODY = "body"


class CarrierRequests:
    """The requests of one call by TorchServe, as its context describes them.

    Pieces of a response are sent at once, through TorchServe's socket. A response that begins with a piece consists of
    frames with headers; any other is a single frame without one.
    """

    def __init__(self, context: Any) -> None:
        self._context = copy.copy(context)  # the handler's calls change the original
        self._begun: set[int] = set()

    def send(self, place: int, piece: frames.Piece) -> None:
        self._begun.add(place)
        body = framed(frames.encode(piece), Kind.PIECE)
        ids = {place: self._context.request_ids[place]}
        # The last argument sets the header that tells TorchServe that the response continues.
        message = create_predict_response({place: body}, ids, "a piece", 200, self._context, True)
        self._context.cl_socket.sendall(message)

    def result(self, place: int, result: frames.HandlerResult) -> bytes:
        frame = frames.encode(result)
        return framed(frame) if place in self._begun else frame

    def restore(self, context: Any) -> None:
        """Restore the context: what the handler set belongs to its own requests, not to the carriers."""
        carriers = self._context
        context.request_processor, context.request_ids = carriers.request_processor, carriers.request_ids
        context.metrics.request_ids = carriers.request_ids
        context.stopping_criteria = None


class CarriedBatch:
    """A running batch whose requests TorchServe's carry; it calls once for each step, with the carriers of all of them.

    A carrier has its body in the first of its calls only, and gets frames with heads. TorchServe sends no head of an
    response that ends in its first call: such a carrier is kept for another, which has nothing more for it.
    """

    def __init__(self, batch: RunningBatch[str]) -> None:
        self._batch = batch

    def step(self, requests: list[dict[str, Any]], context: Any) -> list[bytes]:
        """Run one step; return the content for each carrier. The criteria in `context` mark those that are done."""
        ids = list(context.request_ids.values())
        carriers = CarrierRequests(context)
        self._batch.keep(ids)
        outputs: dict[str, frames.Piece | frames.HandlerResult] = dict(self._refused(ids, requests))
        outputs.update(self._batch.step(context) if self._batch else ())
        carriers.restore(context)
        done = [
            carrier not in outputs or (isinstance(outputs[carrier], frames.HandlerResult) and _BODY not in request)
            for carrier, request in zip(ids, requests, strict=True)
        ]
        context.stopping_criteria = [lambda _, is_done=is_done: is_done for is_done in done]
        return [framed_output(outputs[carrier]) if carrier in outputs else b"" for carrier in ids]

    def _refused(self, ids: list[str], requests: list[dict[str, Any]]) -> Iterator[tuple[str, frames.HandlerResult]]:
        """Add the new requests to the batch; yield the result of each that cannot be read."""
        for carrier, request in zip(ids, requests, strict=True):
            if _BODY in request and (refusal := self._batch.join(carrier, frames.decode_batch(request[_BODY]))):
                yield carrier, refusal
