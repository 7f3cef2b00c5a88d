"""Payload loggers for tests, and what becomes of their payloads."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator

from data_plane.messages import Response
from data_plane.payload_logger.counts import Counts, Drop, SinkFailure
from data_plane.payload_logger.events import PayloadKind
from data_plane.payload_logger.logger import PayloadLogger
from data_plane.payload_logger.settings import LoggerSettings, Mode
from tests.support.scripted_server import Behaviour, ScriptedServer, scripted

MIB = 1024 * 1024
JSON = b"application/json"
NOWHERE = "http://127.0.0.1:1"


def a_logger(
    url: str = NOWHERE, *, mode: Mode = Mode.ALL, fraction: float = 1.0, max_bytes: int = 64 * MIB
) -> PayloadLogger:
    return PayloadLogger(LoggerSettings(url=url, mode=mode, fraction=fraction), "pod", max_bytes=max_bytes)


@contextlib.asynccontextmanager
async def logging_to(
    behaviour: Behaviour, *, mode: Mode = Mode.REQUEST
) -> AsyncIterator[tuple[PayloadLogger, ScriptedServer]]:
    """A started logger and its sink."""
    async with scripted(behaviour) as sink:
        logger = a_logger(f"http://{sink.host}/in?a=b", mode=mode)
        logger.start()
        try:
            yield logger, sink
        finally:
            await logger.close(0)


def ask(logger: PayloadLogger, identity: str = "1", body: bytes = b"question", answer: bytes = b"answer") -> None:
    """Log a request and its response."""
    if exchange := logger.begin((), identity, JSON, (body,)):
        exchange.respond(Response(answer))


def delivered(**numbers: int) -> Counts:
    return Counts(delivered=Counter({PayloadKind(kind): number for kind, number in numbers.items()}))


def dropped(why: Drop, **numbers: int) -> Counts:
    return Counts(dropped=Counter({(PayloadKind(kind), why): number for kind, number in numbers.items()}))


def failed(why: SinkFailure, **numbers: int) -> Counts:
    return Counts(failed=Counter({(PayloadKind(kind), why): number for kind, number in numbers.items()}))
