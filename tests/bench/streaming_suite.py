"""Answers in pieces, of one archive with `continuousBatching`: TorchServe alone, behind our adapter, and without it.

All three are up and take turns, so that what else the machine does meets each of them. A step of the model takes 5 ms
however many requests it has, or none, which leaves what the server itself takes.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.bench import streams
from tests.bench.environments import PROGRAMS
from tests.bench.options import Options
from tests.bench.peers.torchserve import QUIET
from tests.bench.report import Measured, Row, versions
from tests.bench.targets import ADAPTER, MAR, TORCHSERVE
from tests.support import runtimes
from tests.support.model_folder import manifest, write_mar
from tests.support.runtimes import Runtime

_SERVERS = {TORCHSERVE: runtimes.TORCHSERVE, ADAPTER: "adapter", MAR: "mar"}
_OURS = {"adapter": ADAPTER, "mar": MAR}
_BATCH = 8
_STEPS_MS = {"step-5ms": 5, "step-0ms": 0}
_WORDS = 50  # of an answer
# Of TorchServe's figure: at most for what is waited, at least for what is done in a second.
_WAITS = {"adapter": 1.5, "mar": 1.0}
_RATES = {"adapter": 0.9, "mar": 1.0}

Cells = list[dict[str, Any]]


def measure(options: Options) -> Measured:
    """Rows for each of ours beside TorchServe."""
    rounds, warm_up_s = (2, 2) if options.quick else (8, 6)
    cells: Cells = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, contextlib.ExitStack() as up:
        directory = _model_dir(Path(folder))
        servers = {name: up.enter_context(Runtime(kind, directory)) for name, kind in _SERVERS.items()}
        for server in servers.values():
            server.wait_ready(_STEPS_MS)
            streams.press(server.port, "step-0ms", _BATCH, _WORDS, warm_up_s)  # what Java has to compile
        for _ in range(rounds):
            for name, server in servers.items():
                cells += [{"server": name, **cell} for cell in _round(server.port)]
    return Measured(_rows(cells), versions(), cells, tables=_table(cells))


def _round(port: int) -> Cells:
    """One turn of a server."""
    lone = streams.press(port, "step-5ms", 1, 4, 1)
    cells: Cells = [{"what": "lone", "ms": round(statistics.median(lone.first_ms), 3)}]
    for model in _STEPS_MS:
        for clients in (_BATCH, 4 * _BATCH):
            seen = streams.press(port, model, clients, _WORDS, 2)
            first_ms = round(statistics.median(seen.first_ms), 3)
            cells.append({"what": f"{model}, {clients} clients", "words_per_s": seen.words_per_s, "first_ms": first_ms})
    gone = [streams.after_hanging_up(port, "step-5ms", _BATCH) for _ in range(5)]
    return [*cells, {"what": "after hanging up", "ms": round(statistics.median(gone), 3)}]


def _rows(cells: Cells) -> list[Row]:
    rows = []
    for short in _OURS:
        of = _of(cells, short)
        rows += [
            of("first-word", "first word, 1 client, a step of 5 ms", "lone", "ms"),
            of("words", "8 clients, a step of 5 ms", "step-5ms, 8 clients", "words_per_s"),
            of("words-queued", "32 clients, a step of 5 ms", "step-5ms, 32 clients", "words_per_s"),
            of("words-no-model", "8 clients, a step of 0 ms", "step-0ms, 8 clients", "words_per_s"),
            of("after-hanging-up", "first word after 8 clients of a full batch hung up", "after hanging up", "ms"),
        ]
    return rows


def _of(cells: Cells, short: str) -> Callable[[str, str, str, str], Row]:
    """Makes rows for one of ours."""

    def row(id: str, what: str, cell: str, figure: str) -> Row:  # noqa: A002
        ours, theirs = (_median(cells, server, cell, figure) for server in (_OURS[short], TORCHSERVE))
        is_wait = figure == "ms"
        most = (_WAITS if is_wait else _RATES)[short]
        holds = ours <= most * theirs if is_wait else ours >= most * theirs
        target = f"{'≤' if is_wait else '≥'} {most:g}×"
        return Row(f"{short}-{id}", f"{short}: {what}", ours, "ms" if is_wait else "words/s", target, holds,
                   TORCHSERVE, theirs)  # fmt: skip

    return row


def _median(cells: Cells, server: str, what: str, figure: str) -> float:
    return round(
        statistics.median(cell[figure] for cell in cells if (cell["server"], cell["what"]) == (server, what)), 2
    )


def _table(cells: Cells) -> str:
    columns = {
        "first word, 1 client (ms)": ("lone", "ms"),
        "8 clients, 5 ms (words/s)": ("step-5ms, 8 clients", "words_per_s"),
        "32 clients, 5 ms (words/s)": ("step-5ms, 32 clients", "words_per_s"),
        "8 clients, 0 ms (words/s)": ("step-0ms, 8 clients", "words_per_s"),
        "32 clients, 0 ms (words/s)": ("step-0ms, 32 clients", "words_per_s"),
        "after hanging up (ms)": ("after hanging up", "ms"),
    }
    lines = [f"| server | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for server in _SERVERS:
        figures = (f"{_median(cells, server, *cell):,g}" for cell in columns.values())
        lines.append(f"| {server} | {' | '.join(figures)} |")
    return "\n".join(lines)


def _model_dir(folder: Path) -> Path:
    """TorchServe waits 1 ms for others to come, the least that it takes; untouched it is 100 ms. Its log is quiet."""
    for model, step_ms in _STEPS_MS.items():
        yaml: Mapping[str, Any] = {
            "minWorkers": 1, "maxWorkers": 1, "batchSize": _BATCH, "maxBatchDelay": 1, "continuousBatching": True,
            "step_ms": step_ms,
        }  # fmt: skip
        described = manifest(modelName=model, handler="streaming_handler.py", configFile="model-config.yaml")
        handler = (PROGRAMS / "streaming_handler.py").read_bytes()
        files = {"streaming_handler.py": handler, "model-config.yaml": json.dumps(yaml).encode()}
        write_mar(folder / f"model-store/{model}.mar", described, files)
    logging = folder / "log4j2.xml"
    logging.write_text(QUIET)
    (folder / "config").mkdir()
    lines = ("load_models=all", "service_envelope=", f"vmargs=-Dlog4j.configurationFile=file://{logging}", "")
    (folder / "config/config.properties").write_text("\n".join(lines))
    return folder
