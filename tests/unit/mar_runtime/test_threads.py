"""Calls in a thread of their own: in order, with their errors, and not kept afterwards."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from typing import Any, cast

import pytest

from mar_runtime.pool.thread_pool import ThreadPool, _Worker
from mar_runtime.pool.work_thread import WorkThread
from mar_runtime.pool.worker_pool import PoolPolicy
from mar_runtime.worker.spec import HandlerSpec
from torchserve_compat.frames import HandlerBatch, HandlerRequest, HandlerResponse, HandlerResult, Piece, RequestPart
from torchserve_compat.worker.pieces import Emit


async def test_calls_run_one_after_another_in_one_thread() -> None:
    thread = WorkThread("worker")

    names = await asyncio.gather(*(thread.run(lambda: threading.current_thread().name) for _ in range(3)))

    assert names == ["worker"] * 3


async def test_what_a_call_raises_reaches_who_asked_and_nobody_else() -> None:
    thread = WorkThread("worker")

    with pytest.raises(SystemExit, match="7"):
        await thread.run(lambda: sys.exit(7))
    assert await thread.run(lambda: 1) == 1


async def test_an_answer_that_nobody_waits_for_is_dropped() -> None:
    thread, go = WorkThread("worker"), threading.Event()

    abandoned = asyncio.ensure_future(thread.run(go.wait))
    await asyncio.sleep(0)
    abandoned.cancel()
    go.set()

    assert await thread.run(lambda: 1) == 1


async def test_nothing_of_a_call_is_kept_while_the_thread_waits() -> None:
    class Large:
        pass

    thread = WorkThread("worker")
    result = weakref.ref(await thread.run(Large))
    await thread.run(lambda: None)
    gc.collect()

    assert result() is None


async def test_a_closed_thread_ends_after_what_it_was_asked_for() -> None:
    thread = WorkThread("worker to close")
    done = asyncio.ensure_future(thread.run(threading.current_thread))
    await asyncio.sleep(0)
    thread.close()

    (await done).join()


class SendsPieces:
    """As a loaded handler."""

    def run(self, batch: HandlerBatch, emit: Emit) -> HandlerResult:
        for word in (b"one ", b"two "):
            emit(Piece(batch.requests[0].id, HandlerResponse(word)))
        return HandlerResult([HandlerResponse(b"three")], 0.0)


async def test_pieces_of_a_handler_in_a_thread_come_ahead_of_its_result() -> None:
    spec = HandlerSpec(
        model="m", folder="/models/m", handler="handler.py", envelope="none", batch_size=1, threads=1, gpu=None,
        packages=None, limit_max_image_pixels=True,
    )  # fmt: skip
    threads = ThreadPool(
        spec, PoolPolicy(), archive="m.mar", gpus=(), on_result=lambda *_: None, on_failure=lambda _: None
    )
    thread, pieces = WorkThread("worker"), list[bytes]()
    threads._idle.append(_Worker(thread, cast(Any, SendsPieces())))

    batch = HandlerBatch("raw", [HandlerRequest("1", (), [RequestPart("body", "", b"")])])
    result = await threads.send(batch, lambda: True, lambda piece: not pieces.append(piece.response.body))
    thread.close()

    assert (pieces, result.responses) == ([b"one ", b"two "], [HandlerResponse(b"three")])
