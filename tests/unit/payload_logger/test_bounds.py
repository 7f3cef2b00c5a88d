"""What payloads hold while nobody takes them: bounded, and counted beyond that."""

from __future__ import annotations

import dataclasses

from data_plane.limits import MAX_LOGGED_EVENTS, MAX_LOGGED_PAYLOAD, PAYLOAD_OVERHEAD
from data_plane.payload_logger.exchange import OpenPayload
from data_plane.payload_logger.logger import PayloadLogger
from data_plane.payload_logger.settings import Mode
from tests.unit.payload_logger.loggers import JSON, MIB, a_logger, ask, dropped


def test_payloads_beyond_the_bytes_are_dropped() -> None:
    logger = a_logger(mode=Mode.REQUEST, max_bytes=3 * (1000 + PAYLOAD_OVERHEAD))
    for _ in range(5):
        ask(logger, body=bytes(1000))

    held = {"events": 3, "bytes": 3 * (1000 + PAYLOAD_OVERHEAD)}
    assert logger.counts == dataclasses.replace(dropped("queue_full", request=2), **held)


def test_payloads_beyond_the_number_are_dropped_and_hold_nothing() -> None:
    logger = a_logger(mode=Mode.REQUEST)
    for _ in range(MAX_LOGGED_EVENTS + 1):
        ask(logger, body=b"")

    held = {"events": MAX_LOGGED_EVENTS, "bytes": MAX_LOGGED_EVENTS * PAYLOAD_OVERHEAD}
    assert logger.counts == dataclasses.replace(dropped("queue_full", request=1), **held)


def test_a_payload_that_is_too_large_is_dropped_however_much_room_there_is() -> None:
    logger = a_logger()
    ask(logger, body=bytes(MAX_LOGGED_PAYLOAD), answer=bytes(MAX_LOGGED_PAYLOAD))

    assert logger.counts == dropped("too_large", request=1, response=1)


def a_stream(logger: PayloadLogger, identity: str = "1") -> OpenPayload:
    exchange = logger.begin((), identity, JSON, (b"",))
    assert exchange
    stream = exchange.stream()
    assert stream
    return stream


def test_a_streamed_response_is_counted_while_it_is_sent() -> None:
    logger = a_logger(mode=Mode.RESPONSE)
    stream = a_stream(logger)
    seen = []
    for _ in range(3):
        stream.add(bytes(MIB))
        seen.append(logger.counts.bytes)

    assert seen == [number * MIB + PAYLOAD_OVERHEAD for number in (1, 2, 3)]


def test_a_streamed_response_that_becomes_too_large_is_given_up_at_once() -> None:
    logger = a_logger(mode=Mode.RESPONSE)
    stream = a_stream(logger)
    seen = []
    for _ in range(MAX_LOGGED_PAYLOAD // MIB + 3):
        stream.add(bytes(MIB))
        seen.append(logger.counts.bytes)
    stream.end(JSON)

    assert seen[-4:] == [0, 0, 0, 0]
    assert logger.counts == dropped("too_large", response=1)


async def test_streams_beyond_the_bytes_of_all_are_dropped() -> None:
    logger = a_logger(mode=Mode.RESPONSE, max_bytes=4 * MIB)
    streams = [a_stream(logger, str(number)) for number in range(3)]
    for stream in streams:
        stream.add(bytes(MIB), bytes(MIB // 2))
    for stream in streams:
        stream.end(JSON)

    held = {"events": 2, "bytes": 2 * (MIB + MIB // 2 + PAYLOAD_OVERHEAD)}
    assert logger.counts == dataclasses.replace(dropped("queue_full", response=1), **held)


def test_requests_are_sampled_by_their_ids_with_their_responses() -> None:
    logger = a_logger(fraction=0.25)
    sampled = [logger.begin((), str(number), JSON, (b"",)) is not None for number in range(1000)]
    again = [logger.begin(((b"ce-id", b"%d" % number),), "x", JSON, (b"",)) is not None for number in range(1000)]

    assert sampled == again
    assert 200 < sum(sampled) < 300
    assert logger.counts.events == 2 * sum(sampled)


def test_only_what_the_mode_names_is_logged() -> None:
    events = {}
    for mode in Mode:
        logger = a_logger(mode=mode)
        ask(logger)
        exchange = logger.begin((), "2", JSON, (b"",))
        if exchange:
            exchange.respond(JSON, (b"{}",), 500)
        events[mode] = logger.counts.events

    assert events == {Mode.ALL: 3, Mode.REQUEST: 2, Mode.RESPONSE: 1}
