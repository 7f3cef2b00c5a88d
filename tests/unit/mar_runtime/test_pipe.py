"""Frames between the server and a worker process, however the socket cuts them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from data_plane.errors import ClientGone
from mar_runtime.pool.pipe import NeverStarted, Pipe, WorkerDied
from torchserve_compat.wire import Kind, Unframer, framed

PATIENT = 60.0  # seconds


def numbered(frame: bytes, number: int) -> bytes:
    return framed(frame, Kind.WHOLE, number)


def keeping(pieces: list[bytes]) -> Callable[[bytes], bool]:
    return lambda piece: not pieces.append(piece)


def no_piece(piece: bytes) -> bool:
    raise AssertionError(piece)


@asynccontextmanager
async def connected(before: bytes = b"", *, at_once: bool = False) -> AsyncIterator[tuple[Pipe, socket.socket]]:
    """A pipe and its other end, which has said something before the pipe was there."""
    ours, theirs = socket.socketpair()
    theirs.sendall(before)
    ours.setblocking(False)
    theirs.setblocking(False)
    _, pipe = await asyncio.get_running_loop().create_connection(lambda: Pipe(at_once=at_once), sock=ours)
    with theirs:
        yield pipe, theirs
        pipe.close()
        await pipe.lost


async def test_last_words_are_kept_and_no_answer() -> None:
    loop = asyncio.get_running_loop()
    async with connected(framed(b"loaded")) as (pipe, theirs):
        await pipe.first
        answer = pipe.send(b"", PATIENT, no_piece)
        await loop.sock_sendall(theirs, framed("SystemExit: ü".encode(), Kind.EXIT_MESSAGE))
        theirs.close()
        await pipe.lost
        pipe.fail(WorkerDied("it exited"))

        with pytest.raises(WorkerDied):
            await answer
        assert pipe.exit_message == "SystemExit: ü"


async def test_a_process_that_reads_no_more_has_run_none_of_the_frames_without_an_answer() -> None:
    loop = asyncio.get_running_loop()
    async with connected(framed(b"loaded")) as (pipe, theirs):
        await pipe.first
        first, second = (pipe.send(b"", PATIENT, no_piece) for _ in range(2))
        await loop.sock_sendall(theirs, framed(b"it is tired", Kind.LAST) + numbered(b"answer", 0))
        theirs.close()
        await pipe.lost
        pipe.fail(WorkerDied("it exited"))

        assert (pipe.why_last, await first) == ("it is tired", b"answer")
        with pytest.raises(NeverStarted):
            await second


async def test_answers_belong_to_frames_by_their_numbers() -> None:
    loop = asyncio.get_running_loop()
    async with connected(framed(b"loaded")) as (pipe, theirs):
        await pipe.first
        answers = [pipe.send(b"", PATIENT, no_piece) for _ in range(3)]
        answers[1].cancel()  # nobody waits for it any more; its answer comes all the same
        await loop.sock_sendall(theirs, numbered(b"1", 0) + numbered(b"2", 1) + numbered(b"3", 2))

        assert [await answers[0], await answers[2]] == [b"1", b"3"]
        assert pipe.pending == 0


async def test_only_the_first_frame_can_have_been_the_end_of_the_process() -> None:
    async with connected(framed(b"loaded")) as (pipe, theirs):
        await pipe.first
        answers = [pipe.send(b"", PATIENT, no_piece) for _ in range(3)]
        theirs.close()
        await pipe.lost
        pipe.fail(WorkerDied("it exited"))

        outcomes = await asyncio.gather(*answers, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [WorkerDied, NeverStarted, NeverStarted]


async def test_the_time_of_a_frame_runs_from_when_those_before_it_are_answered() -> None:
    loop = asyncio.get_running_loop()
    async with connected(framed(b"loaded")) as (pipe, theirs):
        await pipe.first
        first, second = pipe.send(b"", PATIENT, no_piece), pipe.send(b"", 0.0, no_piece)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(second), 0.05)
        assert not second.done()

        await loop.sock_sendall(theirs, framed(b"1"))
        assert await first == b"1"
        with pytest.raises(TimeoutError):
            await second


async def test_what_is_sent_after_the_end_goes_nowhere() -> None:
    async with connected() as (pipe, theirs):
        theirs.close()
        await pipe.lost

        answer = pipe.send(b"too late", PATIENT, no_piece)
        pipe.fail(WorkerDied("it exited"))

        with pytest.raises(WorkerDied):
            await answer


async def test_a_piece_gives_its_answer_the_time_anew() -> None:
    loop = asyncio.get_running_loop()
    async with connected(framed(b"loaded")) as (pipe, theirs):
        await pipe.first
        late, pieces = 0.4, list[bytes]()
        answer = pipe.send(b"", late, keeping(pieces))
        asked_at = loop.time()
        while loop.time() < asked_at + 2 * late:
            await loop.sock_sendall(theirs, framed(b"a", Kind.PIECE))
            await asyncio.sleep(0)
        await loop.sock_sendall(theirs, framed(b"b"))

        assert await answer == b"b"


@pytest.mark.parametrize("before_s", [0.2, PATIENT])
async def test_a_frame_gets_its_own_time_whatever_the_frame_before_it_was_given(before_s: float) -> None:
    loop = asyncio.get_running_loop()
    async with connected(framed(b"loaded")) as (pipe, theirs):
        await pipe.first
        answered = pipe.send(b"", before_s, no_piece)
        await loop.sock_sendall(theirs, framed(b"a"))
        await answered
        await asyncio.sleep(0.1)  # the shorter timer is due half way through the next frame
        sent_at = loop.time()
        with pytest.raises(TimeoutError):
            await pipe.send(b"", 0.2, no_piece)
        assert loop.time() - sent_at >= 0.2


async def test_a_request_of_which_nobody_takes_more_leaves_the_running_batch() -> None:
    loop, sent = asyncio.get_running_loop(), Unframer()
    async with connected(framed(b"loaded"), at_once=True) as (pipe, theirs):
        await pipe.first
        stays, leaves = pipe.send(b"a", PATIENT, lambda _: True), pipe.send(b"b", PATIENT, lambda _: False)
        said = framed(b"one", Kind.PIECE, 0) + framed(b"one", Kind.PIECE, 1) + framed(b"two", Kind.PIECE, 1)
        await loop.sock_sendall(theirs, said + numbered(b"end", 0))

        assert await stays == b"end"
        with pytest.raises(ClientGone):
            await leaves
        received: list[tuple[int, int, bytes]] = []
        while len(received) < 3:
            received += sent.feed(await loop.sock_recv(theirs, 1 << 16))
        assert received == [(Kind.WHOLE, 0, b"a"), (Kind.WHOLE, 1, b"b"), (Kind.LEAVE, 1, b"")]


async def test_all_of_a_running_batch_may_have_been_the_end_of_the_process() -> None:
    async with connected(framed(b"loaded"), at_once=True) as (pipe, theirs):
        await pipe.first
        answers = [pipe.send(b"", PATIENT, no_piece) for _ in range(2)]
        theirs.close()
        await pipe.lost
        pipe.fail(WorkerDied("it exited"))

        outcomes = await asyncio.gather(*answers, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [WorkerDied, WorkerDied]


async def test_a_running_batch_of_which_nothing_is_heard_is_late_as_a_whole() -> None:
    async with connected(framed(b"loaded"), at_once=True) as (pipe, _):
        await pipe.first
        answers = [pipe.send(b"", 0.05, no_piece) for _ in range(2)]

        outcomes = await asyncio.gather(*answers, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [TimeoutError, TimeoutError]


async def test_a_request_whose_answer_is_cancelled_leaves_the_running_batch() -> None:
    loop, sent = asyncio.get_running_loop(), Unframer()
    async with connected(framed(b"loaded"), at_once=True) as (pipe, theirs):
        await pipe.first
        pipe.send(b"a", PATIENT, no_piece).cancel()
        await asyncio.sleep(0)

        assert pipe.pending == 0
        received: list[tuple[int, int, bytes]] = []
        while len(received) < 2:
            received += sent.feed(await loop.sock_recv(theirs, 1 << 16))
        assert received == [(Kind.WHOLE, 0, b"a"), (Kind.LEAVE, 0, b"")]
