"""Payload loggers for tests, and what becomes of their payloads."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from data_plane.payload_logger.logger import PayloadLogger
from data_plane.payload_logger.queue import Drop
from data_plane.payload_logger.settings import LoggerSettings, Mode
from tests.support.scripted_server import Behaviour, ScriptedServer, scripted

MIB = 1024 * 1024
JSON = b"application/json"
NOWHERE = "http://127.0.0.1:1"


@dataclass(frozen=True)
class Counts:
    """What the metrics say became of the payloads, by type and reason, and what is held now."""

    delivered: dict[str, int] = field(default_factory=dict)
    dropped: dict[tuple[str, str], int] = field(default_factory=dict)
    failed: dict[tuple[str, str], int] = field(default_factory=dict)
    events: int = 0
    bytes: int = 0


class LoggerOfTest(PayloadLogger):
    """A payload logger with a registry of its own."""

    def __init__(self, settings: LoggerSettings, *, max_bytes: int) -> None:
        self.registry = CollectorRegistry()
        super().__init__(settings, "pod", registry=self.registry, max_bytes=max_bytes)

    @property
    def counts(self) -> Counts:
        return counts_of(self.registry)


def counts_of(registry: CollectorRegistry) -> Counts:
    samples = [sample for metric in registry.collect() for sample in metric.samples]
    values = {
        (sample.name.removeprefix("payload_logger_"), *(sample.labels[name] for name in sorted(sample.labels))): int(
            sample.value
        )
        for sample in samples
    }
    return Counts(
        {labels[0]: value for (name, *labels), value in values.items() if name == "delivered_total"},
        {(labels[1], labels[0]): value for (name, *labels), value in values.items() if name == "dropped_total"},
        {(labels[1], labels[0]): value for (name, *labels), value in values.items() if name == "failed_total"},
        values["queued",],
        values["queued_bytes",],
    )


def a_logger(
    url: str = NOWHERE,
    *,
    mode: Mode = Mode.ALL,
    fraction: float = 1.0,
    max_bytes: int = 64 * MIB,
) -> LoggerOfTest:
    settings = LoggerSettings(url=url, mode=mode, fraction=fraction)
    return LoggerOfTest(settings, max_bytes=max_bytes)


@contextlib.asynccontextmanager
async def logging_to(
    behaviour: Behaviour, *, mode: Mode = Mode.REQUEST
) -> AsyncIterator[tuple[LoggerOfTest, ScriptedServer]]:
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
        exchange.respond(JSON, (answer,))


def delivered(**numbers: int) -> Counts:
    return Counts(delivered=numbers)


def dropped(why: Drop, **numbers: int) -> Counts:
    return Counts(dropped={(kind, why): number for kind, number in numbers.items()})


def failed(why: str, **numbers: int) -> Counts:
    return Counts(failed={(kind, why): number for kind, number in numbers.items()})
