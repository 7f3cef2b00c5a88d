"""A server of each SDK over the same models, asked everything once."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conformance.sdk import over_grpc
from tests.conformance.sdk.asked import REQUESTS, Asked
from tests.conformance.sdk.predictor import scripted_server
from tests.conformance.sdk.values import plain
from tests.support.ports import free_port
from tests.support.runtimes import ROOT
from tests.support.waiting import eventually

# What models are told beside requests.
EVENTS = {
    "the start: a sync `start`": "start starting",
    "the start: an async `start`": "start starting-later",
    "the start: a sync `load` of a model that is not ready": "load loaded",
    "the start: an async `load` of a model that is not ready": "load loaded-later",
    "the start: an async `start_engine`": "start_engine",
    "the start: `register_exception_handler`": "handled lost",
    "the end: a sync `stop`": "stop echo",
    "the end: an async `stop`": "stop stopping",
    "the end: `stop_engine`": "stop_engine",
    "the end: a `stop` of a model that a hook has added": "stop late",
}

# Seconds; less than the server's grace period, as nothing is under way when it ends.
_END_TIMEOUT = 25

_PROGRAM = "tests.conformance.sdk.program"


def answers(package: str, folder: Path) -> dict[str, Any]:
    """The server's answers by request; and what its models were told from its start to its end."""
    http_port, grpc_port = free_port(), free_port()
    events, log = folder / "events", folder / "log"
    command = [sys.executable, "-W", "ignore", "-m", _PROGRAM, package, str(http_port), str(grpc_port)]
    with scripted_server() as (url, seen):
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, url.removeprefix("http://"), str(events)], stdout=output, stderr=output, cwd=ROOT
            )
        try:
            eventually(lambda: _lives(process, http_port, log), "the server answers", 60, log.read_text)
            found = {one.name: _sent(one, http_port, seen) for one in REQUESTS}
            found |= over_grpc.answers(grpc_port)
            process.send_signal(signal.SIGTERM)
            found["the end: exit code"] = process.wait(_END_TIMEOUT)
        finally:
            process.kill()
            process.wait()
    told = events.read_text().split("\n")
    return found | {name: told.count(event) for name, event in EVENTS.items()}


def _sent(asked: Asked, port: int, seen: list[Any]) -> Any:
    """The answer, and what the predictor was asked for it."""
    seen.clear()
    answer = asked.send(port)
    return {**answer, "predictor": plain(list(seen))} if seen else answer


def _lives(process: subprocess.Popen[bytes], port: int, log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    with contextlib.suppress(OSError):
        return bool(Asked("lives", "/v2/health/live", method="GET").send(port)["status"] == 200)
    return False
