"""A model that keeps state between requests: those of one sequence go to one worker, one after the other, in order."""

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
    InvalidInput,
    SequenceLost,
    UpstreamBroken,
    UpstreamTimeout,
)
from data_plane.limits import MAX_SEQUENCE_ID
from data_plane.messages import Response, StreamingResponse, header
from data_plane.model import Call, Fields, Streaming
from data_plane.protocol.v1 import PredictRequest
from data_plane.protocol.v2.requests import InferRequest, InferResponse, ModelMetadata
from torchserve_compat import frames
from torchserve_compat.server.model import HandlerModel

R = TypeVar("R")

# What a handler asks its context for, whatever clients call it.
_ID = SequenceHeaders().id
_MARK = b"isvc-sequence"


class StatefulModel(Streaming):
    """One version of a model; each of its `workers` has a queue of its own, and runs one batch at a time.

    `timeout_s`: how long a request may take, its time in queues included. `marks`: each request goes to the transport
    with a mark of its sequence, for another server that is to tell sequences apart; see `take_sequence`.
    """

    def __init__(
        self,
        workers: Sequence[HandlerModel],
        limits: SequenceLimits,
        headers: SequenceHeaders,
        *,
        timeout_s: float | None = None,
        marks: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = workers[0].name
        self.version = workers[0].version
        self._workers = workers
        self._headers = headers
        self._timeout_s = math.inf if timeout_s is None else timeout_s
        self._marks = marks
        self._clock = clock
        self._sequences = Sequences(self.name, limits, len(workers))
        self._turns: dict[sequences.Sequence, asyncio.Lock] = {}
        self._drained = asyncio.Event()

    def worker_changed(self, worker: int, processes: int) -> None:
        """A worker has its process, or has none: what its sequences have done so far is lost with it."""
        if processes:
            self._sequences.recover(worker)
        else:
            self._sequences.lose(worker, self._clock())

    async def drained(self) -> None:
        """Returns when no request waits, for its turn or in a queue, and none is under way."""
        if self._turns:
            self._drained.clear()
            await self._drained.wait()

    async def metadata(self) -> ModelMetadata:
        """A handler does not say what it takes."""
        return await self._workers[0].metadata()

    async def predict(self, request: PredictRequest, call: Call) -> Response:
        """Answers {"instances": …}."""
        return await self._ask(call, lambda worker: worker.predict(request, call))

    async def explain(self, request: PredictRequest, call: Call) -> Response:
        """Answers {"instances": …} with explanations."""
        return await self._ask(call, lambda worker: worker.explain(request, call))

    async def infer(self, request: InferRequest, call: Call) -> InferResponse:
        """Answers tensors."""
        return await self._ask(call, lambda worker: worker.infer(request, call))

    async def raw(
        self,
        body: bytes,
        content_type: str,
        path: str,
        call: Call,
        *,
        explain: bool = False,
        name: str = "body",
        fields: Fields = (),
    ) -> Response | StreamingResponse:
        """Answers a body of any kind, as the handler understands it."""
        return await self._ask(
            call, lambda worker: worker.raw(body, content_type, path, call, explain=explain, name=name, fields=fields)
        )

    async def infer_stream(self, request: InferRequest, call: Call) -> AsyncGenerator[InferResponse, None]:
        """Answers tensors, with a response for each piece of the handler's answer."""
        async with self._turn(call) as worker, contextlib.aclosing(worker.infer_stream(request, call)) as responses:
            async for response in responses:
                yield response

    async def _ask(self, call: Call, ask: Callable[[HandlerModel], Awaitable[R]]) -> R:
        async with self._turn(call) as worker:
            return await ask(worker)

    @contextlib.asynccontextmanager
    async def _turn(self, call: Call) -> AsyncIterator[HandlerModel]:
        """The worker of the request's sequence, when those that came before it have been answered."""
        starts, ends = (_is_true(call, name) for name in (self._headers.start, self._headers.end))
        sequence_id = self._identify(call)
        sequence = self._sequences.enter(sequence_id, self._clock(), starts=starts)
        if self._marks:
            call.headers = (*call.headers, (_MARK, str(sequence.number).encode()))
        was_gone = call.is_gone
        # What waits for a worker that dies is dropped, so that the next one does not begin it anew.
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
            if not sequence.is_lost:  # it is the first to tell
                self._sequences.lose(sequence.worker, self._clock())
            raise
        finally:
            self._sequences.leave(sequence, self._clock(), ends=ends)
            if not sequence.pending:
                del self._turns[sequence]
            if not self._turns:
                self._drained.set()

    def _identify(self, call: Call) -> str:
        """The sequence's id, written into the headers once, as the handler reads it; a request without begins one."""
        told = header(call.headers, self._headers.id) or header(call.headers, _ID)
        if told and len(told) > MAX_SEQUENCE_ID:
            raise InvalidInput(f"The sequence's id is {len(told)} bytes long; it may have {MAX_SEQUENCE_ID}.")
        names = {self._headers.id, _ID}
        others = [one for one in call.headers if one[0] not in names and one[0] != _MARK]
        if not told:
            told = f"ts-seq-{uuid.uuid4()}".encode()
            others.append((self._headers.start, b"true"))
        call.headers = (*others, *((name, told) for name in names))
        return told.decode("latin-1")

    async def _wait(self, turn: asyncio.Lock, call: Call) -> None:
        now = time.monotonic()
        if now + self._timeout_s < call.deadline:
            call.deadline, call.timeout_s = now + self._timeout_s, self._timeout_s
        try:
            async with asyncio.timeout(None if call.deadline == math.inf else max(0.0, call.deadline - now)):
                await turn.acquire()
        except TimeoutError:
            raise DeadlineExceeded(f"Model {self.name} did not answer within {call.timeout_s:g} s.") from None


def take_sequence(batch: frames.Batch) -> tuple[bytes, frames.Batch]:
    """(the mark of its sequence, the batch without it) of a batch of one request. Each sequence has a mark of its own,
    also one that has another's id after that has ended."""
    (request,) = batch.requests
    headers = tuple(one for one in request.headers if one[0] != _MARK)
    unmarked = frames.Batch(batch.form, [msgspec.structs.replace(request, headers=headers)])
    return header(request.headers, _MARK) or b"", unmarked


def _is_true(call: Call, name: bytes) -> bool:
    return (header(call.headers, name) or b"").strip().lower() == b"true"
