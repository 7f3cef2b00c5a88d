"""A payload logger's sink that takes connections and nothing else: no request waits for it, and memory is bounded."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Iterator

import psutil
import pytest

from data_plane.limits import LOG_SENDERS, MAX_LOGGED_BYTES
from data_plane.payload_logger.settings import VARIABLE
from tests.hostile.health import healthy
from tests.integration.mar_runtime.serving import model_dir
from tests.support.runtimes import Request, Runtime

MIB = 1024 * 1024
REQUESTS = 100
# With a member that the handler ignores; all requests together are more than may wait.
BODY = json.dumps({"instances": [{"do": "tell_version", "more": "x" * MIB}]}).encode()
OTHERWISE = 100 * MIB  # what the server takes for the requests themselves, and keeps of it
COUNT = re.compile(r"^payload_logger_(?:dropped_total|failed_total|queued)(?:\{.*\})? (\S+)$", re.M)


@pytest.fixture
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder = model_dir(tmp_path_factory.mktemp("sinks"), {"m": {}})
    with socket.create_server(("127.0.0.1", 0), backlog=4 * LOG_SENDERS) as sink:
        settings = json.dumps({"url": f"http://127.0.0.1:{sink.getsockname()[1]}"})
        flags = ("--grace-period", "1")
        with Runtime("mar", folder, *flags, has_torch=False, **{VARIABLE: settings}) as running:
            yield running.wait_ready(["m"])


def test_a_sink_that_never_responds_delays_neither_requests_nor_the_end(runtime: Runtime) -> None:
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
    assert re.search(
        r"payloads were not delivered to http://127\.0\.0\.1:\d+: queue_full \d+, stopped \d+", runtime.log
    )
