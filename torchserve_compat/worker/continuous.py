"""Continuous batching, as TorchServe's `continuousBatching` has it. In the handler's process.

A handler is called for one step after the other. Each time it gets a row for every request of the running batch, and
returns one piece of the answer to each; requests that it says are finished leave, others join in their place. It keeps
what it needs of a request by its id, in `context.cache`; a request whose client is gone is not among the ids any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from data_plane.errors import ServingError, UnprocessableInput
from torchserve_compat import frames, values
from torchserve_compat.frames import Answer, Batch, Form, Piece, Request, Result
from torchserve_compat.worker.context import Headers
from torchserve_compat.worker.failures import failure_of
from torchserve_compat.worker.pieces import NoPieces

K = TypeVar("K")

# As TorchServe marks, for its clients as well, that more is to come.
_MORE = ("ts_stream_next", "true")


@dataclass
class _Running:
    """One request of the batch."""

    id: str  # by which the handler knows it
    form: Form
    request: Request
    row: dict[str, Any] | None  # until the handler has had it
    joined_at: float = field(default_factory=time.perf_counter)


class RunningBatch(Generic[K]):
    """The requests that a handler works on, by keys of the caller's choice."""

    def __init__(self, handle: Callable[[list[Any], Any], Any], *, only_bodies: bool, parses_json: bool) -> None:
        self._handle = handle
        self._only_bodies = only_bodies  # a row is the body, not a dictionary with it
        self._parses_json = parses_json
        self._running: dict[K, _Running] = {}
        self._joined = 0
        self._criteria: Any = None

    def __len__(self) -> int:
        return len(self._running)

    def join(self, key: K, batch: Batch) -> Result | None:
        """Adds the batch's only request from the next step on; the answer to one that cannot be read."""
        (request,) = batch.requests
        try:
            row = self._row(batch.form, request)
        except ServingError as error:
            return Result([Answer(error.message.encode(), error.status, frames.REFUSAL)], 0.0)
        # Clients choose the ids of their requests, and use one again to try again: what the handler kept by it, of one
        # that was broken off, is not for the next.
        self._joined += 1
        self._running[key] = _Running(f"{request.id}#{self._joined}", batch.form, request, row)
        return None

    def leave(self, key: K) -> None:
        """Nobody waits for this request any more."""
        self._running.pop(key, None)

    def keep(self, keys: Collection[K]) -> None:
        """Nobody waits for any other."""
        self._running = {key: one for key, one in self._running.items() if key in keys}

    def step(self, context: Any) -> list[tuple[K, Piece | Result]]:
        """Calls the handler once, for at least one request; what it said to each. Results end their requests."""
        running = list(self._running.items())
        said: list[tuple[K, Piece | Result]]
        try:
            said = self._call(running, context)
        except Exception as error:  # noqa: BLE001 - the handler is the user's: anything can come
            failure = failure_of(error)
            said = [(key, self._ended(one, failure=failure)) for key, one in running]
        for key, one in said:
            if isinstance(one, Result):
                del self._running[key]
        return said

    def _call(self, running: list[tuple[K, _Running]], context: Any) -> list[tuple[K, Piece | Result]]:
        context.request_ids = {place: one.id for place, (_, one) in enumerate(running)}
        context.request_processor = [Headers(one.request, one.form) for _, one in running]
        context.cl_socket = NoPieces()
        context.stopping_criteria = self._criteria  # those of the last step, where the handler makes no new ones
        if context.metrics is not None:
            context.metrics.request_ids = context.request_ids
        rows = [self._taken_row(one) for _, one in running]
        results = values.results_of(self._handle(rows, context), len(rows))
        self._criteria = context.stopping_criteria
        return [
            (key, self._said(one, result, place, context))
            for place, ((key, one), result) in enumerate(zip(running, results, strict=True))
        ]

    def _said(self, one: _Running, result: Any, place: int, context: Any) -> Piece | Result:
        try:
            answer = values.answer(*_encoded(one.form, result), context, place)
            is_last = _stops(context.stopping_criteria, place, result)
        except Exception as error:  # noqa: BLE001 - a criterion is the user's; what fails for one fails alone
            return self._ended(one, failure=failure_of(error))
        if is_last:
            return self._ended(one, answer)
        return Piece(one.request.id, Answer(answer.body, answer.status, answer.content_type, [*answer.headers, _MORE]))

    def _ended(self, one: _Running, answer: Answer | None = None, failure: frames.Failure | None = None) -> Result:
        return Result([answer] if answer else [], time.perf_counter() - one.joined_at, failure)

    def _taken_row(self, one: _Running) -> Any:
        """In its first step all of the request, later nothing of it: so does TorchServe."""
        row, one.row = one.row or {}, None
        return row.get("data") or row.get("body") if self._only_bodies else row

    def _row(self, form: Form, request: Request) -> dict[str, Any]:
        if form == "v2":
            return _row_of_tensors(request)
        return {part.name: values.decode(part, parses_json=self._parses_json) for part in request.parts}


def _row_of_tensors(request: Request) -> dict[str, Any]:
    """The inputs by name where there are several, or the one input as the body; raises a ServingError."""
    from torchserve_compat import tensors

    rows = tensors.instances(request.parts)
    if len(rows) != 1:
        raise UnprocessableInput(f"A request to this model is one row; its inputs have {len(rows)}.")
    (row,) = rows
    return row if isinstance(row, dict) else {"body": row}


def _encoded(form: Form, result: Any) -> tuple[bytes, str]:
    """(body, content type) of a piece."""
    if form == "v2":
        from torchserve_compat import tensors

        return tensors.encode_predictions([result]), tensors.CONTENT_TYPE
    return values.encode(result)


def _stops(criteria: Any, place: int, result: Any) -> bool:
    """Whether this was the last piece. A handler without criteria answers in one step."""
    if not criteria:
        return True
    verdict = criteria[place](result)
    return verdict is None or bool(verdict)
