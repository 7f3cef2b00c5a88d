"""Runs a batch on a handler: what TorchServe's Service does for a batch of its own. In the handler's process.

Needs the `torchserve` wheel for its exceptions and for what a handler finds in its context.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Any

from ts.utils.util import PredictionException

from transformer_sdk.handler import frames
from transformer_sdk.handler.carriers import Carriers
from transformer_sdk.handler.context import NeedsOwnBatch
from transformer_sdk.handler.envelopes import Envelope, Handle, envelope_named
from transformer_sdk.handler.pieces import Emit, Pieces
from transformer_sdk.handler.values import HandlerOutputError, status_of
from transformer_sdk.messages import encodable, words_of

log = logging.getLogger(__name__)

_OUT_OF_MEMORY = 507


class HandlerCalls:
    """One handler behind its envelope. To TorchServe it looks like an envelope whose every request is a frame.

    `parses_json`: whether bodies of JSON are decoded for a handler that gets them whole.
    """

    def __init__(self, handle: Handle, envelope: str, *, parses_json: bool = True) -> None:
        self._handle = handle
        self._envelope: Envelope = envelope_named(envelope, parses_json=parses_json)

    def handle(self, requests: list[dict[str, Any]], context: Any) -> list[bytes]:
        """TorchServe's entry: a frame is the body of its request."""
        carriers = Carriers(context)
        results = []
        for place, request in enumerate(requests):
            batch = frames.decode_batch(request["body"])
            results.append(carriers.result(place, self.run(batch, context, partial(carriers.send, place))))
        carriers.restore(context)
        return results

    def run(self, batch: frames.Batch, context: Any, emit: Emit) -> frames.Result:
        """Answers every request of the batch; whatever the handler raises becomes the batch's failure.

        What the handler sends ahead of its results goes to `emit` at once.
        """
        started = time.perf_counter()
        context.cl_socket = Pieces(batch, emit)
        try:
            answers = self._envelope.serve(batch, self._handle, context)
            return frames.Result(answers, time.perf_counter() - started)
        except Exception as error:  # noqa: BLE001 - the handler is the user's: anything can come
            return frames.Result([], time.perf_counter() - started, _failure(error))


def _failure(error: Exception) -> frames.Failure:
    message, status = _told(error)
    return frames.Failure(message, status, alone=isinstance(error, NeedsOwnBatch))


def _told(error: Exception) -> tuple[str, int]:
    """What the client reads, and the status. A handler may quote its input: the text can be anything."""
    if isinstance(error, PredictionException):
        return encodable(str(error.message)), status_of(error.error_code) or 500
    words = words_of(error)
    if isinstance(error, NeedsOwnBatch):
        return words, 500
    log.warning("the handler failed", exc_info=error)
    if isinstance(error, HandlerOutputError):
        return words, 500
    if isinstance(error, MemoryError) or "CUDA" in words:
        return f"Out of memory: {words}" if words else "Out of memory", _OUT_OF_MEMORY
    return f"{type(error).__name__} : {words}", 500
