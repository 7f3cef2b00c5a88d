"""An answer in pieces between a handler that makes them and a client that reads them, whoever is faster."""

from __future__ import annotations

import asyncio

import pytest

from data_plane.errors import ClientTooSlow, UpstreamBroken
from data_plane.limits import MAX_STREAM_BUFFER
from torchserve_compat.frames import HandlerResponse
from torchserve_compat.server.stream import Stream


async def read(stream: Stream) -> list[bytes]:
    return [body async for body in stream]


async def test_every_piece_is_read_in_order_and_then_it_ends() -> None:
    stream = Stream(HandlerResponse(b"1"))
    reading = asyncio.ensure_future(read(stream))
    await asyncio.sleep(0)
    stream.put(b"2")
    await asyncio.sleep(0)
    stream.end(b"3")

    assert await reading == [b"1", b"2", b"3"]


async def test_what_broke_off_is_raised_behind_the_pieces_that_came_before() -> None:
    stream = Stream(HandlerResponse(b"1"))
    stream.fail(UpstreamBroken("the worker died"))

    assert await anext(stream) == b"1"
    with pytest.raises(UpstreamBroken, match="the worker died"):
        await anext(stream)


async def test_a_closed_stream_takes_no_pieces_and_ends_for_its_reader() -> None:
    stream = Stream(HandlerResponse(b"1"))
    stream.close()

    assert not stream.put(b"2")
    assert await read(stream) == []


async def test_a_client_who_reads_too_slowly_is_given_up_and_nothing_is_kept_for_it() -> None:
    stream = Stream(HandlerResponse(b"1"))
    piece = bytes(1 << 18)
    taken = 0
    while stream.put(piece):
        taken += len(piece)

    assert MAX_STREAM_BUFFER - 2 * len(piece) < taken <= MAX_STREAM_BUFFER
    with pytest.raises(ClientTooSlow, match="left 1048576 bytes of its response unread"):
        await anext(stream)


async def test_empty_pieces_count_as_well() -> None:
    stream = Stream(HandlerResponse(b""))

    pieces = 0
    while stream.put(b""):
        pieces += 1

    assert pieces < MAX_STREAM_BUFFER / 50


async def test_one_piece_may_be_larger_than_all_that_may_wait() -> None:
    stream = Stream(HandlerResponse(b"1"))
    large = bytes(2 * MAX_STREAM_BUFFER)

    assert await anext(stream) == b"1"
    assert stream.put(large)
    assert await anext(stream) == large
