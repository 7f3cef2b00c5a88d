"""`isvc bench` beside wrk (closed loop) and vegeta (at a rate), on the same servers: do they say the same?

The tools take turns, each on the core that the server does not have, and each figure is the median of its turns.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.bench.options import Options
from tests.bench.peers.asgi import Waiting
from tests.bench.peers.launch import Launched, launched
from tests.bench.peers.ours import DEFAULT, MarRuntime
from tests.bench.processes import ONE_CORE
from tests.bench.report import Measured, Row, slug, versions
from tests.bench.work import load

ROOT = Path(__file__).parents[2]
_APART = 0.05
_CLIENTS = 16
# Of the highest rate, at which vegeta and `isvc bench` send. One request at a time costs the server twice what it costs
# in a batch: at half of that rate its batches, and so its latencies, depend on how evenly a tool sends.
_SHARE = 0.25
_TAIL = 2000  # requests of a turn at a rate, at least: 1 % of fewer are a handful
_FIGURES = ("requests_per_s", "p50_ms", "p99_ms")

Run = Mapping[str, Any]


def measure(options: Options) -> Measured:
    """A row for each figure of each way to send, and for what the tools cost themselves, on each server."""
    vegeta = subprocess.check_output(["bash", "tests/cluster/program", "vegeta"], cwd=ROOT, text=True).strip()
    works = load(options)
    rows: list[Row] = []
    cells: list[Mapping[str, Any]] = []
    for peer, work in ((Waiting(), replace(works["noop"], prediction=0)), (MarRuntime(), works["mnist"])):
        with launched(peer, work, DEFAULT["default"], ONE_CORE, options) as server:
            rate, runs = _take_turns(server, vegeta, options)
        rows += [
            *_rows(f"{peer.name}, closed loop", f"{_CLIENTS} clients", runs, "isvc bench", "wrk"),
            *_rows(f"{peer.name}, at a rate", f"{rate} requests a second", runs, "isvc bench at a rate", "vegeta"),
        ]
        cells += [{"server": peer.name, **run} for run in runs]
    return Measured(rows, versions(), cells)


def _take_turns(server: Launched, vegeta: str, options: Options) -> tuple[int, Sequence[Run]]:
    """Return the rate that was sent at, and what each tool said in each turn."""
    turns, seconds = (3, 1) if options.quick else (11, 4)
    server.warm_up(seconds)
    rate = round(_SHARE * server.press(_CLIENTS, seconds).requests_per_s)
    longer = seconds if options.quick else max(seconds, math.ceil(_TAIL / rate))
    with tempfile.TemporaryDirectory() as folder:
        body = Path(folder, "body")
        body.write_bytes(server.question.body)
        tools: Mapping[str, Callable[[], Run]] = {
            "isvc bench": lambda: _isvc(server, body, seconds, "--connections", str(_CLIENTS)),
            "wrk": lambda: _wrk(server, body, seconds),
            "isvc bench at a rate": lambda: _isvc(server, body, longer, "--rate", str(rate)),
            "vegeta": lambda: _vegeta(vegeta, server, body, longer, rate),
        }
        return rate, [{"tool": tool, **run()} for _ in range(turns) for tool, run in tools.items()]


def _rows(way: str, how: str, cells: Sequence[Run], ours: str, theirs: str) -> list[Row]:
    made = []
    for figure in (*_FIGURES, "cpu_us"):
        our, their = (_median(cells, tool, figure) for tool in (ours, theirs))
        is_cost = figure == "cpu_us"
        name, unit = {
            "requests_per_s": ("rate", "req/s"),
            "cpu_us": ("processor time of the tool, a request", "µs"),
        }.get(figure, (figure.removesuffix("_ms"), "ms"))
        made.append(
            Row(
                slug(f"{way} {name}"), f"{way}, {how}: {name}", our, unit,
                "–" if is_cost else f"≤ {_APART:.0%} apart", is_cost or abs(our / their - 1) <= _APART, theirs, their,
            )
        )  # fmt: skip
    return made


def _median(cells: Sequence[Run], tool: str, figure: str) -> float:
    return round(statistics.median(cell[figure] for cell in cells if cell["tool"] == tool), 3)


def _isvc(server: Launched, body: Path, seconds: int, *how: str) -> Run:
    isvc = str(Path(sys.executable).with_name("isvc"))
    command = [isvc, "bench", _url(server), "--data", f"@{body}", "--time", str(seconds), *how, "--output", "json"]
    output, _ = _timed(command)
    found = json.loads(output)
    assert found["failed"] == 0, found
    latency = found["latencyMs"]
    return {
        "requests_per_s": found["responsesPerSecond"], "p50_ms": latency["p50"], "p99_ms": latency["p99"],
        # Without the start of Python, which is no part of a request's cost.
        "cpu_us": found["client"]["cpuMicrosecondsPerRequest"],
        "late_p99_ms": found["client"]["lateP99Ms"],
    }  # fmt: skip


def _wrk(server: Launched, body: Path, seconds: int) -> Run:
    script = Path(__file__).with_name("wrk.lua")
    output, cpu = _timed([
        "wrk", "--threads=1", f"--connections={_CLIENTS}", f"--duration={seconds}s", f"--script={script}", _url(server),
        "--", str(body),
    ])  # fmt: skip
    seen = json.loads(output.splitlines()[-1])
    assert seen["failed"] == 0, seen
    return {
        "requests_per_s": seen["requests"] / seen["seconds"], "p50_ms": seen["p50_ms"], "p99_ms": seen["p99_ms"],
        "cpu_us": 1e6 * cpu / seen["requests"],
    }  # fmt: skip


def _vegeta(vegeta: str, server: Launched, body: Path, seconds: int, rate: int) -> Run:
    targets = f"POST {_url(server)}\nContent-Type: application/json\n@{body}\n".encode()
    results, cpu = _timed([vegeta, "attack", f"-rate={rate}/1s", f"-duration={seconds}s"], targets)
    report = json.loads(
        subprocess.run([vegeta, "report", "-type=json"], input=results, stdout=subprocess.PIPE, check=True).stdout
    )
    assert report["success"] == 1, report
    latencies = report["latencies"]
    return {
        "requests_per_s": report["throughput"], "p50_ms": latencies["50th"] / 1e6, "p99_ms": latencies["99th"] / 1e6,
        "cpu_us": 1e6 * cpu / report["requests"],
    }  # fmt: skip


def _url(server: Launched) -> str:
    return f"http://127.0.0.1:{server.server.port}{server.question.path}"


def _timed(command: Sequence[str], sent: bytes = b"") -> tuple[bytes, float]:
    """Run a tool on its core; return what it printed, and its processor time in seconds."""
    before = _children_s()
    done = subprocess.run(
        ["taskset", "--cpu-list", ONE_CORE.load, *command], input=sent, stdout=subprocess.PIPE, check=True
    )
    return done.stdout, _children_s() - before


def _children_s() -> float:
    times = os.times()
    return times.children_user + times.children_system
