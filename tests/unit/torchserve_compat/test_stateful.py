"""A model that keeps state: requests of a sequence stay in order and in their worker, and none is run twice."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from data_plane.batching.limits import BatchLimits
from data_plane.batching.metrics import BatchMetricsRegistry
from data_plane.batching.sequences import SequenceHeaders, SequenceLimits
from data_plane.errors import (
    ClientGone,
    DeadlineExceeded,
    InferenceFailed,
    InvalidRequest,
    SequenceLost,
    ServingError,
    TooManySequences,
)
from data_plane.messages import Headers, Response
from data_plane.model import Call
from data_plane.protocol.torchserve.requests import RawRequest
from data_plane.protocol.v1 import PredictRequest
from tests.support.batching import turns_of_the_loop
from torchserve_compat import frames
from torchserve_compat.server.model import HandlerModel
from torchserve_compat.server.stateful import StatefulModel, take_sequence
from torchserve_compat.server.transport import OnPiece

ID, START, END = b"ts_request_sequence_id", b"ts_request_sequence_start", b"ts_request_sequence_end"
LIMITS = SequenceLimits(max_sequences=8, max_idle_s=60.0, queue_size=8)


class Worker:
    """Answers with the sum of what came for each sequence, when it may; `seen` is what it got, batch by batch.

    After it broke, the next batch waits for another process, and is dropped if nobody waits for it by then: as in the
    pool.
    """

    def __init__(self) -> None:
        self.seen: list[list[tuple[str, str]]] = []
        self.requests: list[frames.HandlerRequest] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.failure: ServingError | frames.HandlerFailure | None = None
        self._broken = False
        self.wanted: Callable[[], bool] = bool
        self._sums: dict[str, int] = {}

    async def send(
        self, batch: frames.HandlerBatch, is_wanted: Callable[[], bool], on_piece: OnPiece
    ) -> frames.HandlerResult:
        self.wanted = is_wanted
        if self._broken:
            await turns_of_the_loop()
            if not is_wanted():
                raise ClientGone
            self._broken = False
        self.requests += batch.requests
        told = [(sequence_of(one), one.parts[0].value.decode()) for one in batch.requests]
        self.seen.append(told)
        await self.may_go_on.wait()
        if isinstance(self.failure, ServingError):
            self._broken = True
            raise self.failure
        if self.failure:
            return frames.HandlerResult([], 0.0, self.failure)
        return frames.HandlerResult([frames.HandlerResponse(self._add(*one)) for one in told], 0.0)

    def _add(self, sequence: str, number: str) -> bytes:
        self._sums[sequence] = self._sums.get(sequence, 0) + int(number)
        return str(self._sums[sequence]).encode()


def sequence_of(request: frames.HandlerRequest) -> str:
    (found,) = [value.decode() for name, value in request.headers if name == ID]
    return found


def stateful(*workers: Worker, limits: SequenceLimits = LIMITS, batch_size: int = 8, **options: Any) -> StatefulModel:
    metrics = BatchMetricsRegistry(CollectorRegistry()).of_model("m")
    envelope = options.pop("envelope", "none")
    models = [
        HandlerModel(
            "m",
            "1",
            worker,
            limits=BatchLimits(max_batch_size=batch_size),
            metrics=metrics,
            workers=1,
            envelope=envelope,
            stateful=True,
        )
        for worker in workers
    ]
    return StatefulModel(models, limits, options.pop("headers", SequenceHeaders()), **options)


def call(sequence: str = "", *more: tuple[bytes, bytes], gone: bool = False, deadline: float = math.inf) -> Call:
    headers: Headers = ((ID, sequence.encode()),) if sequence else ()
    return Call((*headers, *more), "id", lambda: gone, deadline, timeout_s=0.01)


async def ask(model: StatefulModel, number: int, sequence: str = "", *more: tuple[bytes, bytes]) -> int:
    answer = await model.raw(RawRequest(str(number).encode()), call(sequence, *more))
    assert isinstance(answer, Response)
    return int(answer.body)


async def asked(model: StatefulModel, *requests: tuple[str, int]) -> list[asyncio.Task[int]]:
    """Tasks that have got as far as they can."""
    tasks = [asyncio.ensure_future(ask(model, number, sequence)) for sequence, number in requests]
    await turns_of_the_loop()
    return tasks


async def outcomes(tasks: list[asyncio.Task[int]]) -> list[int | type[BaseException]]:
    results = await asyncio.gather(*tasks, return_exceptions=True)
    return [type(one) if isinstance(one, BaseException) else one for one in results]


async def test_what_an_envelope_would_merge_piece_by_piece_is_not_merged() -> None:
    worker = Worker()
    model = stateful(worker, envelope="kserve")
    worker.may_go_on.clear()
    tasks = [*await asked(model, ("first", 1)), *await asked(model, ("a", 1), ("b", 1))]
    documents = [
        asyncio.ensure_future(ask_document(model, sequence, by_v1=by_v1))
        for sequence, by_v1 in zip("cdef", [0, 0, 1, 1], strict=True)
    ]
    await turns_of_the_loop()

    worker.failure = frames.HandlerFailure("seen enough", 500)
    worker.may_go_on.set()

    await asyncio.gather(*tasks, *documents, return_exceptions=True)
    assert sorted(len(batch) for batch in worker.seen) == [1, 1, 1, 1, 1, 2]


async def ask_document(model: StatefulModel, sequence: str, *, by_v1: int) -> Response | Any:
    body = b'{"instances": [1]}'
    if by_v1:
        return await model.predict(PredictRequest(body, 1), call(sequence))
    return await model.raw(RawRequest(b" " + body, "application/json"), call(sequence))


async def test_a_batch_that_fails_is_not_run_again() -> None:
    worker = Worker()
    model = stateful(worker)
    worker.may_go_on.clear()
    tasks = [*await asked(model, ("first", 1)), *await asked(model, ("a", 1), ("b", 1))]

    worker.failure = frames.HandlerFailure("no", 500)
    worker.may_go_on.set()

    assert await outcomes(tasks) == [InferenceFailed] * 3
    assert len(worker.seen) == 2


async def test_a_handler_finds_the_id_by_torchserves_name_whatever_clients_call_it() -> None:
    worker = Worker()
    model = stateful(worker, headers=SequenceHeaders(b"x-sequence", b"x-start", b"x-end"))

    await ask(model, 1, "not-this", (b"x-sequence", b"a"), (b"x-sequence", b"b"))

    await ask(model, 1, "by-grpc")  # TorchServe's own API has a field for it

    assert worker.requests[0].headers.count((b"x-sequence", b"a")) == 1
    assert [sequence_of(request) for request in worker.requests] == ["a", "by-grpc"]


async def test_an_id_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"^The sequence's id is 1025 bytes long; it may have 1024\.$"):
        await ask(stateful(Worker()), 1, "x" * 1025)


async def test_a_sequence_ends_with_the_request_that_says_so() -> None:
    model = stateful(Worker(), limits=SequenceLimits(max_sequences=1, max_idle_s=60.0))

    await ask(model, 1, "a", (END, b"TRUE"))

    assert await ask(model, 1, "b") == 1
    with pytest.raises(TooManySequences):
        await ask(model, 1, "a")


async def test_what_waits_for_a_worker_that_has_died_is_not_for_the_next() -> None:
    """It is on its way already when the death is told: as the pool does, the transport asks who still waits."""
    worker = Worker()
    model = stateful(worker)
    worker.may_go_on.clear()
    tasks = await asked(model, ("a", 1))

    model.worker_changed(0, 0)

    assert not worker.wanted()
    assert await outcomes(tasks) == [SequenceLost]
    worker.may_go_on.set()
    model.worker_changed(0, 1)
    assert await ask(model, 1, "b") == 1


async def test_one_whose_time_is_over_while_it_waits_its_turn_is_told_and_the_next_goes_on() -> None:
    worker = Worker()
    model = stateful(worker)
    worker.may_go_on.clear()
    (first,) = await asked(model, ("a", 1))

    with pytest.raises(DeadlineExceeded, match=r"^Model m did not answer within 0\.01 s\.$"):
        await model.raw(RawRequest(b"5"), call("a", deadline=0.0))
    (third,) = await asked(model, ("a", 2))
    worker.may_go_on.set()

    assert await outcomes([first, third]) == [1, 3]


async def test_the_time_in_the_queue_of_a_sequence_counts() -> None:
    worker = Worker()
    model = stateful(worker, timeout_s=0.01)
    worker.may_go_on.clear()

    assert await outcomes(await asked(model, ("a", 1), ("a", 1))) == [DeadlineExceeded] * 2


async def test_a_client_who_hangs_up_leaves_its_sequence_to_the_next() -> None:
    worker = Worker()
    model = stateful(worker)

    with pytest.raises(ClientGone):
        await model.raw(RawRequest(b"1"), call("a", gone=True))

    assert await ask(model, 2, "a") == 2


async def test_a_cancelled_request_leaves_its_sequence_to_the_next() -> None:
    worker = Worker()
    model = stateful(worker)
    worker.may_go_on.clear()
    first, second = await asked(model, ("a", 1), ("a", 1))

    second.cancel()
    worker.may_go_on.set()

    assert [await first, await ask(model, 2, "a")] == [1, 3]


async def test_a_mark_tells_sequences_apart_that_have_one_id_and_the_handler_does_not_see_it() -> None:
    worker = Worker()
    model = stateful(worker, marks=True)

    for ends in (b"false", b"true", b"false"):
        await ask(model, 1, "a", (END, ends), (b"isvc-sequence", b"forged"))

    taken = [take_sequence(frames.HandlerBatch("raw", [request])) for request in worker.requests]
    assert [mark for mark, _ in taken] == [b"1", b"1", b"2"]
    assert all(b"isvc-sequence" not in dict(unmarked.requests[0].headers) for _, unmarked in taken)


async def test_it_is_drained_when_those_that_wait_for_their_turn_are_answered_too() -> None:
    worker = Worker()
    model = stateful(worker)
    await model.drained()
    worker.may_go_on.clear()
    tasks = await asked(model, ("a", 1), ("a", 1), ("a", 1))
    draining = asyncio.ensure_future(model.drained())
    await turns_of_the_loop()
    assert not draining.done()

    worker.may_go_on.set()
    await draining

    assert [task.done() for task in tasks] == [True] * 3
    assert await outcomes(tasks) == [1, 2, 3]
