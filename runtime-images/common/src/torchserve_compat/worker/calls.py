"""Runs a batch on a handler, as TorchServe's Service does. Runs in the handler's process.

Needs the `torchserve` wheel for its exceptions and for the handler's context.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any

from data_plane import gpu
from torchserve_compat import frames
from torchserve_compat.worker.carriers import CarriedBatch, CarrierRequests
from torchserve_compat.worker.continuous import RunningBatch
from torchserve_compat.worker.envelopes import Envelope, envelope_named
from torchserve_compat.worker.failures import failure_of
from torchserve_compat.worker.merging import Handle
from torchserve_compat.worker.pieces import Emit, PieceSocket


class HandlerCalls:
    """One handler behind its envelope. TorchServe treats it as an envelope whose requests are frames.

    `decodes`: whether JSON and text are decoded for a handler that gets whole bodies.
    """

    def __init__(self, handle: Handle, envelope: str, *, decodes: bool = True) -> None:
        self._handle = handle
        self._only_bodies = envelope == "body"
        self._decodes = decodes
        self._carried: CarriedBatch | None = None
        self._envelope: Envelope = envelope_named(envelope, decodes=decodes)

    def handle(self, requests: list[dict[str, Any]], context: Any) -> list[bytes]:
        """Serve TorchServe's requests, each of which has a frame as its body.

        Only here can TorchServe's worker end if it cannot use its GPU any more; TorchServe starts another one.
        """
        if gpu.is_lost():
            sys.exit(gpu.ENDED)
        if (context.model_yaml_config or {}).get("continuousBatching") is True:
            self._carried = self._carried or CarriedBatch(self.running_batch())
            return self._carried.step(requests, context)
        carriers = CarrierRequests(context)
        results = []
        for place, request in enumerate(requests):
            batch = frames.decode_batch(request["body"])
            results.append(carriers.result(place, self.run(batch, context, partial(carriers.send, place))))
        carriers.restore(context)
        return results

    def running_batch(self) -> RunningBatch[Any]:
        """Return an empty running batch; requests join and leave it between the handler's steps."""
        return RunningBatch(self._handle, only_bodies=self._only_bodies, decodes=self._decodes)

    def run(self, batch: frames.HandlerBatch, context: Any, emit: Emit) -> frames.HandlerResult:
        """Return a response to each request of the batch; an exception of the handler becomes the batch's failure.

        Pieces that the handler sends before its results go to `emit` at once.
        """
        started = time.perf_counter()
        context.cl_socket = PieceSocket(batch, emit)
        try:
            responses = self._envelope.serve(batch, self._handle, context)
            return frames.HandlerResult(responses, time.perf_counter() - started)
        except Exception as error:  # noqa: BLE001 - a handler may raise anything
            failure = failure_of(error, self._handle, context.system_properties.get("model_dir"))
            return frames.HandlerResult([], time.perf_counter() - started, failure)
