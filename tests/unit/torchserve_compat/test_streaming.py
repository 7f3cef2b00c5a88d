"""A model whose handler sends pieces, asked over HTTP and by the seam for gRPC: each piece leaves when it is made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from data_plane.batching.limits import BatchLimits
from data_plane.batching.metrics import BatchMetricsRegistry
from data_plane.errors import Unsupported
from data_plane.messages import Response, StreamingResponse
from data_plane.model import Call
from data_plane.protocol.torchserve.requests import RawRequest
from data_plane.protocol.v2.requests import TensorRequest
from data_plane.protocol.v2.tensors import Tensor
from torchserve_compat import frames, tensors
from torchserve_compat.frames import HandlerFailure, HandlerResponse, HandlerResult, Piece
from torchserve_compat.server.model import HandlerModel
from torchserve_compat.server.transport import OnPiece

ASKED = TensorRequest((Tensor.from_numpy("x", np.zeros(1)),))


class Scripted:
    """A way to a handler that does what a test says: pieces, and in the end a result or an error."""

    def __init__(self) -> None:
        self.batches: asyncio.Queue[tuple[frames.HandlerBatch, OnPiece]] = asyncio.Queue()
        self.outcomes: asyncio.Queue[HandlerResult | Exception] = asyncio.Queue()

    async def send(self, batch: frames.HandlerBatch, is_wanted: Callable[[], bool], on_piece: OnPiece) -> HandlerResult:
        self.batches.put_nowait((batch, on_piece))
        outcome = await self.outcomes.get()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def model(transport: Scripted, limits: BatchLimits | None = None) -> HandlerModel:
    metrics = BatchMetricsRegistry(CollectorRegistry()).of_model("m")
    return HandlerModel("m", "1", transport, limits=limits or BatchLimits(), metrics=metrics, workers=1)


def call(id: str = "1") -> Call:  # noqa: A002
    return Call((), id, bool)


def done(*bodies: bytes) -> HandlerResult:
    return HandlerResult([HandlerResponse(body) for body in bodies], 0.0)


async def begun(served: HandlerModel, transport: Scripted) -> tuple[StreamingResponse, OnPiece]:
    """An answer of which the first piece is there."""
    asking = asyncio.ensure_future(served.raw(RawRequest(b"{}"), call()))
    _, on_piece = await transport.batches.get()
    assert on_piece(Piece("1", HandlerResponse(b"one ")))
    answer = await asking
    assert isinstance(answer, StreamingResponse)
    return answer, on_piece


async def test_who_hangs_up_is_told_to_the_handlers_side_and_the_queue_goes_on() -> None:
    transport = Scripted()
    served = model(transport)
    answer, on_piece = await begun(served, transport)

    await answer.chunks.aclose()  # type: ignore[attr-defined]

    assert not on_piece(Piece("1", HandlerResponse(b"two ")))
    transport.outcomes.put_nowait(done(b"three"))
    await served.queue.drained()


async def test_of_a_batch_only_those_without_a_piece_are_run_again() -> None:
    transport = Scripted()
    served = model(transport)
    transport.outcomes.put_nowait(done(b""))
    await served.raw(RawRequest(b"{}"), call())  # the next two wait for one another
    await transport.batches.get()
    asking = [asyncio.ensure_future(served.raw(RawRequest(b"{}"), call(id))) for id in "ab"]  # noqa: A001
    batch, on_piece = await transport.batches.get()
    on_piece(Piece("a", HandlerResponse(b"one ")))
    transport.outcomes.put_nowait(HandlerResult([], 0.0, HandlerFailure("no words", 500)))
    again, _ = await transport.batches.get()
    transport.outcomes.put_nowait(done(b"whole"))
    streamed, whole = await asyncio.gather(*asking)

    assert ids(batch) == ["a", "b"]
    assert (ids(again), whole) == (["b"], Response(b"whole"))
    assert isinstance(streamed, StreamingResponse)


async def test_a_piece_for_a_request_that_nobody_made_is_dropped() -> None:
    transport = Scripted()
    asking = asyncio.ensure_future(model(transport).raw(RawRequest(b"{}"), call()))
    _, on_piece = await transport.batches.get()

    assert not on_piece(Piece("another", HandlerResponse(b"one ")))
    transport.outcomes.put_nowait(done(b"whole"))
    assert await asking == Response(b"whole")


async def test_an_answer_whole_is_the_only_response() -> None:
    transport = Scripted()
    transport.outcomes.put_nowait(done(tensors.encode_predictions([2])))

    assert await collected(model(transport)) == [{"predictions": [2]}]


async def test_a_request_that_takes_one_response_is_refused_where_there_are_several() -> None:
    transport = Scripted()
    served = model(transport)
    asking = asyncio.ensure_future(served.infer(ASKED, call()))
    _, on_piece = await transport.batches.get()
    on_piece(Piece("1", HandlerResponse(tensors.encode_predictions(["one"]))))

    with pytest.raises(Unsupported, match="use /predictions"):
        await asking
    transport.outcomes.put_nowait(done(b""))


async def test_requests_for_a_running_batch_go_to_it_each_by_itself_as_far_as_there_is_room() -> None:
    transport = Scripted()
    served = model(transport, BatchLimits(2, continuous=True))
    asking = [asyncio.ensure_future(served.raw(RawRequest(b"{}"), call(name))) for name in "abc"]
    (first, _), (second, _) = await transport.batches.get(), await transport.batches.get()

    assert (ids(first), ids(second), served.queue.waiting) == (["a"], ["b"], 1)
    transport.outcomes.put_nowait(done(b"whole"))
    third, _ = await transport.batches.get()
    assert ids(third) == ["c"]
    transport.outcomes.put_nowait(done(b"whole"))
    transport.outcomes.put_nowait(done(b"whole"))
    assert await asyncio.gather(*asking) == [Response(b"whole")] * 3


def ids(batch: frames.HandlerBatch) -> Sequence[str]:
    return [request.id for request in batch.requests]


async def collected(served: HandlerModel) -> list[dict[str, Any]]:
    return [
        {one.name: np.asarray(one.data).tolist() for one in response.outputs}
        async for response in served.infer_stream(ASKED, call())
    ]
