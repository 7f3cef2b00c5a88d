"""A model that keeps state between requests: the requests of a sequence go to one worker, one at a time, in order."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from data_plane.batching import sequences
from data_plane.batching.sequences import SequenceHeaders, SequenceLimits, Sequences
from data_plane.errors import (
    ClientGone,
    DeadlineExceeded,
    InvalidRequest,
    SequenceLost,
    UpstreamBroken,
    UpstreamTimeout,
)
from data_plane.limits import MAX_SEQUENCE_ID
from data_plane.messages import Response, StreamingResponse, header
from data_plane.model import Call, Streaming
from data_plane.protocol.torchserve.requests import RawRequest
from data_plane.protocol.v1 import PredictRequest
from data_plane.protocol.v2.requests import ModelMetadata, TensorRequest, TensorResponse
from torchserve_compat import frames
from torchserve_compat.server.model import HandlerModel

R = TypeVar("R")

# The header that a handler reads, whatever header clients use.
_ID = SequenceHeaders().id
_MARK = b"isvc-sequence"


class StatefulModel(Streaming):
    """One version of a model; each of its `workers` has its own queue and runs one batch at a time.

    `timeout_s`: how long a request may take, including its time in queues. `marks`: each request carries a mark of its
    sequence to the transport, for a server that must distinguish sequences; see `take_sequence`.
    """

    def __init__(
        self,
        workers: Sequence[HandlerModel],
        limits: SequenceLimits,
        headers: SequenceHeaders,
        *,
        timeout_s: float | None = None,
        marks: bool = False,
    ) -> None:
        self.name = workers[0].name
        self.version = workers[0].version
        self._workers = workers
        self._headers = headers
        self._timeout_s = math.inf if timeout_s is None else timeout_s
        self._marks = marks
        self._sequences = Sequences(self.name, limits, len(workers))
        self._turns: dict[sequences.Sequence, asyncio.Lock] = {}
        self._drained = asyncio.Event()

    def worker_changed(self, worker: int, processes: int) -> None:
        """Record that a worker has a process or lost it; the state of its sequences is lost with the process."""
        if processes:
            self._sequences.recover(worker)
        else:
            self._sequences.lose(worker, time.monotonic())

    async def drained(self) -> None:
        if self._turns:
            self._drained.clear()
            await self._drained.wait()

    async def metadata(self) -> ModelMetadata:
        return await self._workers[0].metadata()

    async def predict(self, request: PredictRequest, call: Call) -> Response:
        return await self._in_turn(call, lambda worker: worker.predict(request, call))

    async def explain(self, request: PredictRequest, call: Call) -> Response:
        return await self._in_turn(call, lambda worker: worker.explain(request, call))

    async def infer(self, request: TensorRequest, call: Call) -> TensorResponse:
        return await self._in_turn(call, lambda worker: worker.infer(request, call))

    async def raw(self, request: RawRequest, call: Call) -> Response | StreamingResponse:
        return await self._in_turn(call, lambda worker: worker.raw(request, call))

    async def infer_stream(self, request: TensorRequest, call: Call) -> AsyncGenerator[TensorResponse, None]:
        async with self._turn(call) as worker, contextlib.aclosing(worker.infer_stream(request, call)) as responses:
            async for response in responses:
                yield response

    async def _in_turn(self, call: Call, send: Callable[[HandlerModel], Awaitable[R]]) -> R:
        async with self._turn(call) as worker:
            return await send(worker)

    @contextlib.asynccontextmanager
    async def _turn(self, call: Call) -> AsyncIterator[HandlerModel]:
        """Yield the worker of the request's sequence, once the earlier requests of the sequence are done."""
        starts, ends = (_is_true(call, name) for name in (self._headers.start, self._headers.end))
        sequence_id = self._identify(call)
        sequence = self._sequences.enter(sequence_id, time.monotonic(), starts=starts)
        if self._marks:
            call.headers = (*call.headers, (_MARK, str(sequence.number).encode()))
        was_gone = call.is_gone
        # A queued request of a lost sequence is dropped, so that the next worker does not start the sequence again.
        call.is_gone = lambda: sequence.is_lost or was_gone()
        turn = self._turns.setdefault(sequence, asyncio.Lock())
        try:
            await self._wait(turn, call)
            try:
                if sequence.is_lost:
                    raise ClientGone
                yield self._workers[sequence.worker]
            finally:
                turn.release()
        except ClientGone:
            if sequence.is_lost:
                raise SequenceLost(self.name, sequence_id) from None
            raise
        except (UpstreamBroken, UpstreamTimeout):
            if not sequence.is_lost:  # the first request to notice
                self._sequences.lose(sequence.worker, time.monotonic())
            raise
        finally:
            self._sequences.leave(sequence, time.monotonic(), ends=ends)
            if not sequence.pending:
                del self._turns[sequence]
            if not self._turns:
                self._drained.set()

    def _identify(self, call: Call) -> str:
        """Return the sequence's id and write it into the headers; a request without one starts a sequence."""
        given = header(call.headers, self._headers.id) or header(call.headers, _ID)
        if given and len(given) > MAX_SEQUENCE_ID:
            raise InvalidRequest(f"The sequence's id is {len(given)} bytes long; it may have {MAX_SEQUENCE_ID}.")
        names = {self._headers.id, _ID}
        others = [one for one in call.headers if one[0] not in names and one[0] != _MARK]
        if not given:
            given = f"ts-seq-{uuid.uuid4()}".encode()
            others.append((self._headers.start, b"true"))
        call.headers = (*others, *((name, given) for name in names))
        return given.decode("latin-1")

    async def _wait(self, turn: asyncio.Lock, call: Call) -> None:
        now = time.monotonic()
        if now + self._timeout_s < call.deadline:
            call.deadline, call.timeout_s = now + self._timeout_s, self._timeout_s
        try:
            async with asyncio.timeout(None if call.deadline == math.inf else max(0.0, call.deadline - now)):
                await turn.acquire()
        except TimeoutError:
            raise DeadlineExceeded(f"Model {self.name} did not answer within {call.timeout_s:g} s.") from None


def take_sequence(batch: frames.HandlerBatch) -> tuple[bytes, frames.HandlerBatch]:
    """Split a batch of one request into the mark of its sequence and the batch without it.

    Each sequence has its own mark, even if it reuses the id of a sequence that has ended.
    """
    (request,) = batch.requests
    headers = tuple(one for one in request.headers if one[0] != _MARK)
    unmarked = frames.HandlerBatch(batch.form, [msgspec.structs.replace(request, headers=headers)])
    return header(request.headers, _MARK) or b"", unmarked


def _is_true(call: Call, name: bytes) -> bool:
    return (header(call.headers, name) or b"").strip().lower() == b"true"
