"""The payload logger that a server's environment asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from data_plane.limits import LOGGED_SHARE, MAX_LOGGED_BYTES
from data_plane.model_server import container
from data_plane.model_server.errors import ConfigurationError
from data_plane.model_server.payloads import payload_logger
from data_plane.payload_logger.settings import VARIABLE
from data_plane.server.metrics import ServerMetrics
from tests.unit.payload_logger.loggers import MIB, ask, counts_of

ENVIRONMENT = {VARIABLE: '{"url": "http://sink", "mode": "request"}'}


def test_without_the_variable_there_is_none() -> None:
    metrics = ServerMetrics()

    assert payload_logger({}, metrics) is None
    assert b"payload_logger" not in metrics.exposition()


def test_the_processes_of_a_server_share_a_part_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "memory", lambda: int(4 * MIB / LOGGED_SHARE))
    held = []
    for processes in (1, 2):
        metrics = ServerMetrics()
        logger = payload_logger(ENVIRONMENT, metrics, processes)
        assert logger
        for _ in range(10):
            ask(logger, body=bytes(MIB // 2))
        held.append(counts_of(metrics.registry).bytes)

    assert [size // (MIB // 2) for size in held] == [7, 3]  # each with its overhead


def test_a_large_machine_does_not_mean_more_than_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "memory", lambda: 1000 * MAX_LOGGED_BYTES)
    metrics = ServerMetrics()
    logger = payload_logger(ENVIRONMENT, metrics)
    assert logger
    for _ in range(MAX_LOGGED_BYTES // MIB):
        ask(logger, body=bytes(MIB))

    counts = counts_of(metrics.registry)
    assert counts.bytes <= MAX_LOGGED_BYTES
    assert sum(counts.dropped.values()) == 1


def test_the_metrics_have_what_became_of_the_payloads() -> None:
    metrics = ServerMetrics()
    logger = payload_logger(ENVIRONMENT, metrics)
    assert logger
    ask(logger, body=b"")
    ask(logger, body=bytes(MAX_LOGGED_BYTES))
    lines = [
        line
        for line in metrics.exposition().decode().splitlines()
        if line.startswith("payload_logger") and "_created" not in line
    ]

    assert lines == [
        'payload_logger_dropped_total{reason="too_large",type="request"} 1.0',
        "payload_logger_queued 1.0",
        "payload_logger_queued_bytes 1024.0",
    ]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ('{"url": "sink"}', "its url 'sink' does not begin with http:// or https://"),
        ('{"url": "https://sink", "caFile": "FILE"}', "FILE, cannot be read: "),
    ],
    ids=["url", "certificates"],
)
def test_settings_that_cannot_be_used_end_the_server(tmp_path: Path, settings: str, problem: str) -> None:
    file = tmp_path / "ca.crt"
    file.write_text("no certificate")

    with pytest.raises(ConfigurationError) as error:
        payload_logger({VARIABLE: settings.replace("FILE", str(file))}, ServerMetrics())
    assert problem.replace("FILE", str(file)) in str(error.value)
