"""What a payload logger costs: `isvc-mar` with MNIST on one core, by sinks that are fine, slow, down or broken.

A server with a logger and one without it are up and are asked in turns, at a fixed rate. Each event must be
delivered or counted. Processor time is measured as well: other work of the machine changes it less than a latency.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import client, environments
from tests.bench.options import Options
from tests.bench.peers.launch import Launched, launched
from tests.bench.peers.ours import DEFAULT, MarRuntime
from tests.bench.peers.peer import Place
from tests.bench.processes import ONE_CORE, Command, Server, free_port, held_to, running
from tests.bench.report import Measured, Row, versions
from tests.bench.work import Work, load

_RATE = 250  # requests per second: under a third of what the server can do
_TURNS, _TURN_S = 10, 4
_QUICK_TURNS, _QUICK_TURN_S = 2, 1
_MOST = 1.02  # times the p50 without a logger
_MOST_MIB = 100  # more memory than without one: what may wait, and what is being sent
_COUNTED = re.compile(r"^payload_logger_(delivered_total|dropped_total|failed_total|queued)(?:\{(.*)\})? (\S+)$", re.M)


@dataclass(frozen=True)
class _Sink:
    """How a sink behaves; without a status, nobody listens."""

    name: str
    status: int | None
    delay_ms: int = 0


_SINKS = (_Sink("fine", 202), _Sink("slow", 202, 1000), _Sink("down", None), _Sink("500", 500))


@dataclass(frozen=True)
class _Logged(MarRuntime):
    """The runtime with a payload logger."""

    url: str = ""

    def commands(self, place: Place, setting: Any) -> Sequence[Command]:
        settings = json.dumps({"url": self.url, "inferenceService": "mnist", "namespace": "bench"})
        return [
            dataclasses.replace(command, environment={**command.environment, "PAYLOAD_LOGGER": settings})
            for command in super().commands(place, setting)
        ]


def measure(options: Options) -> Measured:
    """Rows for the latency, the memory and the events of each sink."""
    work = load(options)["mnist"]
    rows: list[Row] = []
    cells: list[Mapping[str, Any]] = []
    for sink in _SINKS:
        seen = _with_sink(sink, work, options)
        rows += _rows(sink, seen)
        cells.append({"sink": sink.name, **seen})
    return Measured(rows, versions(), cells)


def _with_sink(sink: _Sink, work: Work, options: Options) -> dict[str, Any]:
    turns, seconds = (_QUICK_TURNS, _QUICK_TURN_S) if options.quick else (_TURNS, _TURN_S)
    latencies: dict[str, list[float]] = {"without": [], "with": []}
    used_s = {"without": 0.0, "with": 0.0}
    with contextlib.ExitStack() as up:
        url = up.enter_context(_running(sink))
        servers = {
            name: up.enter_context(launched(peer, work, DEFAULT["default"], ONE_CORE, options))
            for name, peer in (("without", MarRuntime()), ("with", _Logged(url=url)))
        }
        for server in servers.values():
            server.warm_up(2)
        _settle(servers["with"].server)
        before, held = _counts(servers["with"].server), servers["with"].server.pss_mib()
        for turn in range(turns):
            for name in sorted(servers, reverse=bool(turn % 2)):
                started_s = _processor_s(servers[name].server)
                latencies[name] += _turn(servers[name], seconds)
                used_s[name] += _processor_s(servers[name].server) - started_s
        after, most = _counts(servers["with"].server), servers["with"].server.pss_mib()
    return {
        "requests": len(latencies["with"]),
        "p50_ms": {name: round(statistics.median(found), 3) for name, found in latencies.items()},
        "p99_ms": {name: round(statistics.quantiles(found, n=100)[98], 3) for name, found in latencies.items()},
        "processor_us": {name: round(1e6 * used_s[name] / len(found), 1) for name, found in latencies.items()},
        "events": {name: round(after.get(name, 0) - before.get(name, 0)) for name in sorted(after)},
        "more_mib": round(most - held, 1),
    }


def _turn(server: Launched, seconds: int) -> list[float]:
    with held_to(ONE_CORE.load):
        return client.pace(server.server.port, server.question, _RATE, seconds)


def _processor_s(server: Server) -> float:
    return float(sum(sum(process.cpu_times()[:2]) for process in server.processes()))


def _settle(server: Server) -> None:
    """Wait until no events of the warm-up wait, or the sink takes no more."""
    deadline = time.monotonic() + 5
    while _counts(server).get("queued", 0) and time.monotonic() < deadline:
        time.sleep(0.1)


def _counts(server: Server) -> dict[str, float]:
    """Return the numbers of events, by what became of them."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as response:
        text = response.read().decode()
    counts: dict[str, float] = {}
    for name, labels, value in _COUNTED.findall(text):
        reason = re.search(r'reason="(\w+)"', labels or "")
        outcome = name.removesuffix("_total") + (f" ({reason[1]})" if reason else "")
        counts[outcome] = counts.get(outcome, 0) + float(value)
    return counts


@contextlib.contextmanager
def _running(sink: _Sink) -> Iterator[str]:
    """The sink's URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    if sink.status is None:
        yield url
        return
    program = Path(environments.PROGRAMS) / "sink.py"
    command = Command((sys.executable, program, str(port), str(sink.status), str(sink.delay_ms)), {})
    with tempfile.TemporaryDirectory() as folder, running([command], port, ONE_CORE.load, Path(folder)) as server:
        server.wait_ready("/")
        yield url


def _rows(sink: _Sink, seen: Mapping[str, Any]) -> list[Row]:
    p50, events, requests = seen["p50_ms"], seen["events"], seen["requests"]
    what = f"sink {sink.name}"
    became = ", ".join(f"{number} {name}" for name, number in events.items() if number)
    return [
        Row(f"{sink.name}-p50", f"{what}: p50 of {requests} requests", p50["with"], "ms", f"≤ {_MOST} ×",
            p50["with"] <= _MOST * p50["without"], "without a logger", p50["without"]),
        Row(f"{sink.name}-processor", f"{what}: processor time of a request", seen["processor_us"]["with"], "µs", "–",
            True, "without a logger", seen["processor_us"]["without"]),
        Row(f"{sink.name}-events", f"{what}: events delivered or counted ({became})", sum(events.values()), "",
            f"= {2 * requests}", sum(events.values()) == 2 * requests),
        Row(f"{sink.name}-memory", f"{what}: more memory than before", seen["more_mib"], "MiB", f"≤ {_MOST_MIB}",
            seen["more_mib"] <= _MOST_MIB),
    ]  # fmt: skip
