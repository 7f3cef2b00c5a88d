"""Runs a batch on a handler: what TorchServe's Service does for a batch of its own. In the handler's process.

Needs the `torchserve` wheel for its exceptions and for what a handler finds in its context.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from torchserve_compat import frames
from torchserve_compat.worker.carriers import CarriedBatch, Carriers
from torchserve_compat.worker.continuous import RunningBatch
from torchserve_compat.worker.envelopes import Envelope, Handle, envelope_named
from torchserve_compat.worker.failures import failure_of
from torchserve_compat.worker.pieces import Emit, Pieces


class HandlerCalls:
    """One handler behind its envelope. To TorchServe it looks like an envelope whose every request is a frame.

    `parses_json`: whether bodies of JSON are decoded for a handler that gets them whole.
    """

    def __init__(self, handle: Handle, envelope: str, *, parses_json: bool = True) -> None:
        self._handle = handle
        self._only_bodies = envelope == "body"
        self._parses_json = parses_json
        self._carried: CarriedBatch | None = None
        self._envelope: Envelope = envelope_named(envelope, parses_json=parses_json)

    def handle(self, requests: list[dict[str, Any]], context: Any) -> list[bytes]:
        """TorchServe's entry: a frame is the body of its request."""
        if (context.model_yaml_config or {}).get("continuousBatching") is True:
            self._carried = self._carried or CarriedBatch(self.running_batch())
            return self._carried.step(requests, context)
        carriers = Carriers(context)
        results = []
        for place, request in enumerate(requests):
            batch = frames.decode_batch(request["body"])
            results.append(carriers.result(place, self.run(batch, context, partial(carriers.send, place))))
        carriers.restore(context)
        return results

    def running_batch(self) -> RunningBatch[Any]:
        """An empty one, for a handler whose requests join and leave it between its steps."""
        return RunningBatch(self._handle, only_bodies=self._only_bodies, parses_json=self._parses_json)

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
            return frames.Result([], time.perf_counter() - started, failure_of(error))
