"""A payload logger's sink that is silent, or broken in every way: no request waits for it, and memory is bounded."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
from pathlib import Path

import psutil

from data_plane.limits import LOG_SENDERS, MAX_LOGGED_BYTES
from data_plane.payload_logger.settings import VARIABLE
from tests.hostile.health import healthy
from tests.integration.mar_runtime.serving import model_dir
from tests.support.event_sinks import floods, resets, responds
from tests.support.runtimes import Request, Runtime
from tests.support.scripted_server import Visitor, says, scripted

MIB = 1024 * 1024
REQUESTS = 100
# With a member that the handler ignores; all requests together are more than may wait.
BODY = json.dumps({"instances": [{"do": "tell_version", "more": "x" * MIB}]}).encode()
OTHERWISE = 100 * MIB  # what the server takes for the requests themselves, and keeps of it
COUNT = re.compile(r"^payload_logger_(?:dropped_total|failed_total|queued)(?:\{.*\})? (\S+)$", re.M)
ENDLESS_HEAD = b"HTTP/1.1 200 OK\r\nx: %b" % bytes(MIB)
BEHAVIOURS = (resets, floods, responds(500), says(b"nonsense\r\n\r\n"), says(ENDLESS_HEAD))


def log_of_server(folder: Path, port: int) -> str:
    """Start a runtime whose sink is at this port, and end it when it has responded to every request."""
    settings = json.dumps({"url": f"http://127.0.0.1:{port}"})
    flags = ("--grace-period", "1")
    with Runtime("mar", model_dir(folder, {"m": {}}), *flags, has_torch=False, **{VARIABLE: settings}) as runtime:
        runtime.wait_ready(["m"])
        server = psutil.Process(runtime.process.pid)
        before = server.memory_info().rss
        with healthy(runtime.port):
            answers = [runtime.send(Request("POST", "/v1/models/m:predict", BODY)).status for _ in range(REQUESTS)]
        grown = server.memory_info().rss - before
        counted = sum(map(float, COUNT.findall(runtime.metrics())))
        runtime.process.send_signal(signal.SIGTERM)

        assert runtime.wait_exit() == 0
        assert answers == [200] * REQUESTS
        assert counted == 2 * REQUESTS
        assert grown < MAX_LOGGED_BYTES + LOG_SENDERS * len(BODY) + OTHERWISE
        return runtime.log


def test_a_sink_that_never_responds_delays_neither_requests_nor_the_end(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=4 * LOG_SENDERS) as sink:
        log = log_of_server(tmp_path, sink.getsockname()[1])

    told = "; ".join(re.findall(r"payloads were not delivered to http://\S+: ([^;\n]+)", log))
    lost = [(reason, int(number)) for reason, number in re.findall(r"(\w+) (\d+)", told)]
    assert sum(number for _, number in lost) == 2 * REQUESTS
    assert {reason for reason, _ in lost} >= {"queue_full", "stopped"}


async def test_a_sink_that_breaks_in_every_way_harms_nobody(tmp_path: Path) -> None:
    async def by_turns(visitor: Visitor) -> None:
        await BEHAVIOURS[visitor.number % len(BEHAVIOURS)](visitor)

    async with scripted(by_turns) as sink:
        log = await asyncio.to_thread(log_of_server, tmp_path, sink.port)

    assert sink.visits >= len(BEHAVIOURS)
    assert "payloads were not delivered" in log
    assert "Traceback" not in log
