"""Continuous batching, as TorchServe's `continuousBatching` does it. Runs in the handler's process.

The handler is called once for each step. It gets a row for every request of the running batch and returns one piece of
each response. Requests that it marks as finished leave the batch, and others join. The handler keeps its state of a
request in `context.cache` under the request's id; the ids do not include requests whose clients are gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from data_plane.errors import ServingError, UnprocessableInput
from torchserve_compat import frames, values
from torchserve_compat.frames import Form, HandlerBatch, HandlerRequest, HandlerResponse, HandlerResult, Piece
from torchserve_compat.worker.context import RequestHeaders
from torchserve_compat.worker.failures import failure_of
from torchserve_compat.worker.merging import refusal
from torchserve_compat.worker.pieces import RefusingSocket

K = TypeVar("K")

# The header with which TorchServe marks that a response continues; clients see it, too.
_MORE = ("ts_stream_next", "true")


@dataclass
class _Running:
    id: str  # under which the handler knows it
    form: Form
    request: HandlerRequest
    row: dict[str, Any] | None  # until the handler has received it
    joined_at: float = field(default_factory=time.perf_counter)


class RunningBatch(Generic[K]):
    """The requests that a handler processes, by keys of the caller's choice."""

    def __init__(self, handle: Callable[[list[Any], Any], Any], *, only_bodies: bool, decodes: bool) -> None:
        self._handle = handle
        self._only_bodies = only_bodies  # a row is the body, not a dictionary with it
        self._decodes = decodes
        self._running: dict[K, _Running] = {}
        self._joined = 0
        self._criteria: Any = None

    def __len__(self) -> int:
        return len(self._running)

    def join(self, key: K, batch: HandlerBatch) -> HandlerResult | None:
        """Add the batch's only request for the next step; return its result if it cannot be read."""
        (request,) = batch.requests
        try:
            row = self._row(batch.form, request)
        except ServingError as error:
            return HandlerResult([refusal(error)], 0.0)
        # Clients choose the ids of their requests and reuse them for retries. The counter keeps a retry from getting
        # the state that the handler kept for an aborted request.
        self._joined += 1
        self._running[key] = _Running(f"{request.id}#{self._joined}", batch.form, request, row)
        return None

    def leave(self, key: K) -> None:
        self._running.pop(key, None)

    def keep(self, keys: Collection[K]) -> None:
        self._running = {key: one for key, one in self._running.items() if key in keys}

    def step(self, context: Any) -> list[tuple[K, Piece | HandlerResult]]:
        """Call the handler once, for at least one request; return a piece or the result of each.

        A result ends its request.
        """
        running = list(self._running.items())
        outputs: list[tuple[K, Piece | HandlerResult]]
        try:
            outputs = self._call(running, context)
        except Exception as error:  # noqa: BLE001 - a handler may raise anything
            failure = failure_of(error, self._handle, context.system_properties.get("model_dir"))
            outputs = [(key, self._ended(one, failure=failure)) for key, one in running]
        for key, one in outputs:
            if isinstance(one, HandlerResult):
                del self._running[key]
        return outputs

    def _call(self, running: list[tuple[K, _Running]], context: Any) -> list[tuple[K, Piece | HandlerResult]]:
        context.request_ids = {place: one.id for place, (_, one) in enumerate(running)}
        context.request_processor = [RequestHeaders(one.request, one.form) for _, one in running]
        context.cl_socket = RefusingSocket()
        context.stopping_criteria = self._criteria  # those of the last step, unless the handler sets new ones
        if context.metrics is not None:
            context.metrics.request_ids = context.request_ids
        rows = [self._taken_row(one) for _, one in running]
        results = values.results_of(self._handle(rows, context), len(rows))
        self._criteria = context.stopping_criteria
        return [
            (key, self._output(one, result, place, context))
            for place, ((key, one), result) in enumerate(zip(running, results, strict=True))
        ]

    def _output(self, one: _Running, result: Any, place: int, context: Any) -> Piece | HandlerResult:
        try:
            response = values.response_of(*_encoded(one.form, result), context, place)
            is_last = _stops(context.stopping_criteria, place, result)
        except Exception as error:  # noqa: BLE001 - a criterion may raise anything; it fails its request only
            failure = failure_of(error, self._handle, context.system_properties.get("model_dir"))
            return self._ended(one, failure=failure)
        if is_last:
            return self._ended(one, response)
        return Piece(
            one.request.id,
            HandlerResponse(response.body, response.status, response.content_type, [*response.headers, _MORE]),
        )

    def _ended(
        self, one: _Running, response: HandlerResponse | None = None, failure: frames.HandlerFailure | None = None
    ) -> HandlerResult:
        return HandlerResult([response] if response else [], time.perf_counter() - one.joined_at, failure)

    def _taken_row(self, one: _Running) -> Any:
        """Return the row in the first step, and an empty one later, as TorchServe does."""
        row, one.row = one.row or {}, None
        return row.get("data") or row.get("body") if self._only_bodies else row

    def _row(self, form: Form, request: HandlerRequest) -> dict[str, Any]:
        if form == "v2":
            return _row_of_tensors(request)
        return {part.name: values.decode(part, decodes=self._decodes) for part in request.parts}


def _row_of_tensors(request: HandlerRequest) -> dict[str, Any]:
    """Return several inputs by name, or a single input as the body; raises ServingError."""
    from torchserve_compat import tensors

    rows = tensors.instances(request.parts)
    if len(rows) != 1:
        raise UnprocessableInput(f"A request to this model is one row; its inputs have {len(rows)}.")
    (row,) = rows
    return row if isinstance(row, dict) else {"body": row}


def _encoded(form: Form, result: Any) -> tuple[bytes, str]:
    if form == "v2":
        from torchserve_compat import tensors

        return tensors.encode_predictions([result]), tensors.CONTENT_TYPE
    return values.encode(result)


def _stops(criteria: Any, place: int, result: Any) -> bool:
    """Return whether this was the last piece. A handler without criteria responds in one step."""
    if not criteria:
        return True
    verdict = criteria[place](result)
    return verdict is None or bool(verdict)
