"""A transformer's hop: the same source file on KServe's SDK and on ours, in front of the same predictor.

Both cores are everybody's: the load generator's, the transformer's and the predictor's. Both SDKs run without gRPC and
without a log line for each request.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tests.bench import environments
from tests.bench.environments import PROGRAMS
from tests.bench.load import Load, press
from tests.bench.options import Options
from tests.bench.peers.ours import MarRuntime, ours, sources
from tests.bench.peers.peer import Place
from tests.bench.processes import BOTH_CORES, Command, Server, free_port, running
from tests.bench.report import Measured, Row, versions
from tests.bench.work import Question, Work, load

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/mnist_transformer"
ALONE, THEIRS, OURS = "predictor alone", "kserve", "transformer_sdk.kserve"
BARE = "20 lines of uvicorn and aiohttp"  # a yardstick for the machine: it checks nothing, and has no hooks
# The target in milliseconds, and what the 20 lines added where it was set.
_ADDED_MS, _LEAST_ADDED_MS = 0.35, 0.16
_MIB = 1024 * 1024
_CLIENTS = (1, 8, 32)
_DIGIT = 7  # what the no-op predictor says


@dataclass(frozen=True)
class Source:
    """A transformer's file, what it is asked, and the predictor behind it."""

    name: str
    what: str
    path: Path
    question: Question
    answer: Any
    alone: Question  # what the predictor is asked without a transformer
    predictor: Callable[[Place], Command]
    beside: tuple[str, ...] = (THEIRS, OURS)


@dataclass(frozen=True)
class Cell:
    """One measurement, or the median of several."""

    source: str
    sdk: str
    clients: int
    requests_per_s: float
    p50_ms: float
    p99_ms: float
    failed: int
    resident_mib: float  # after the load


def measure(options: Options) -> Measured:
    """Rows of throughput, latency added, memory and start; a table of all cells."""
    rows: list[Row] = []
    cells: list[Cell] = []
    for source in _sources(options):
        with _predictor(source, options) as predictor:
            turns = [_turn(source, predictor, options) for _ in range(1 if options.quick else 3)]
        cells += map(_median, zip(*turns, strict=True))
        rows += _compared(source, cells)
    rows += _starts(_sources(options)[0], 2 if options.quick else 7, options)
    note = "MNIST's predictor is the limit of `pictures` and `script`: see what it does alone."
    kserve = environments.versions("kserve")["kserve"]
    return Measured(rows, versions(kserve=kserve), [asdict(cell) for cell in cells], [note], _tables(cells))


def _sources(options: Options) -> Sequence[Source]:
    numbers = json.dumps({"instances": [[round(0.01 * value, 2) for value in range(100)]]}).encode()
    picture = (EXAMPLE / "sample.json").read_bytes()
    path = "/v1/models/mnist:predict"
    mnist = load(options)["mnist"]

    def stub(place: Place) -> Command:
        return Command((place.python("asgi"), PROGRAMS / "stub_predictor.py", str(place.port)), place.environment())

    def mar(place: Place) -> Command:
        return MarRuntime().commands(Place(mnist, place.port, place.folder, options), {})[0]

    def script(place: Place) -> Command:
        folder = place.folder / "model"
        folder.mkdir()
        shutil.copy(place.models / "mnist.pt", folder)
        return ours(place, "mar_runtime", f"--model-dir={folder}")

    return (
        Source("hop", "no hooks, 100 numbers, no-op predictor", PROGRAMS / "kserve_hop.py",
               Question(path, numbers), [_DIGIT], Question(path, numbers), stub, (THEIRS, BARE, OURS)),
        Source("hooks", "two sync hooks, 100 numbers, no-op predictor", PROGRAMS / "kserve_hooks.py",
               Question(path, numbers), [{"digit": _DIGIT}], Question(path, numbers), stub, (THEIRS, BARE, OURS)),
        Source("pictures", "base64 PNG to MNIST's predictor, isvc-mar", EXAMPLE / "transformer.py",
               Question(path, picture), None, mnist.v1(), mar),
        Source("script", "base64 PNG to MNIST's TorchScript without an archive, isvc-mar", EXAMPLE / "transformer.py",
               Question(path, picture), None, mnist.v1(), script),
    )  # fmt: skip


@contextlib.contextmanager
def _predictor(source: Source, options: Options) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        place = Place(load(options)["mnist"], free_port(), Path(folder), options)
        with running([source.predictor(place)], place.port, BOTH_CORES.server, place.folder) as server:
            server.wait_ready("/" if source.answer else "/v2/health/ready")
            yield server


@contextlib.contextmanager
def _transformer(source: Source, sdk: str, predictor: int, options: Options) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        place = Place(load(options)["mnist"], free_port(), Path(folder), options)
        with running([_command(source, sdk, predictor, place)], place.port, BOTH_CORES.server, place.folder) as server:
            _until_right(server, source, sdk)
            yield server


def _command(source: Source, sdk: str, predictor: int, place: Place) -> Command:
    """The same file for both SDKs, but for the name that it imports from."""
    if sdk == BARE:
        hop = (place.python("kserve"), PROGRAMS / "bare_hop.py", str(place.port), str(predictor))
        return Command(hop, place.environment())
    text = source.path.read_text()
    for other in (OURS, THEIRS):
        text = text.replace(f"from {other}", "from the_sdk")
    program_file = place.folder / "transformer.py"
    program_file.write_text(text.replace("from the_sdk", f"from {sdk}"))
    quiet = place.folder / "logging.json"
    quiet.write_text(json.dumps({"version": 1, "loggers": {"uvicorn": {"level": "WARNING"}}}))
    flags = (
        "--model_name=mnist", f"--predictor_host=127.0.0.1:{predictor}", f"--http_port={place.port}",
        "--enable_grpc=false", "--enable_latency_logging=false", f"--log_config_file={quiet}",
    )  # fmt: skip
    if sdk == THEIRS:
        return Command((place.python("kserve"), program_file, *flags), place.environment())
    return Command((place.python("transformer"), program_file, *flags), place.environment(PYTHONPATH=sources(ROOT)))


def _until_right(server: Server, source: Source, sdk: str) -> None:
    if source.answer:
        right = _DIGIT if sdk == BARE else source.answer[0]
        server.wait_for(source.question, Work("", "", "", (), None, right))
    else:
        server.wait_ready("/v1/models/mnist")


def _turn(source: Source, predictor: Server, options: Options) -> list[Cell]:
    """The predictor alone and behind each hop, one after the other: a noisy minute hits all."""
    cells = _cells(source, ALONE, predictor, source.alone)
    for sdk in source.beside:
        with _transformer(source, sdk, predictor.port, options) as server:
            cells += _cells(source, sdk, server, source.question)
    return cells


def _cells(source: Source, sdk: str, server: Server, question: Question) -> list[Cell]:
    press(server.port, question, 8, 2, BOTH_CORES.load)  # warm
    return [_cell(source, sdk, server, press(server.port, question, each, 4, BOTH_CORES.load)) for each in _CLIENTS]


def _cell(source: Source, sdk: str, server: Server, found: Load) -> Cell:
    resident = round(sum(process.memory_info().rss for process in server.processes()) / _MIB, 1)
    return Cell(
        source.name, sdk, found.clients, found.requests_per_s, found.p50_ms, found.p99_ms, found.failed, resident
    )


def _median(cells: Sequence[Cell]) -> Cell:
    """Of the same in several turns; no failure is forgotten."""
    rate, p50, p99 = (
        round(statistics.median(getattr(cell, name) for cell in cells), 3)
        for name in ("requests_per_s", "p50_ms", "p99_ms")
    )
    failed, resident = sum(cell.failed for cell in cells), max(cell.resident_mib for cell in cells)
    return replace(cells[0], requests_per_s=rate, p50_ms=p50, p99_ms=p99, failed=failed, resident_mib=resident)


def _compared(source: Source, cells: Sequence[Cell]) -> list[Row]:
    found = {(cell.sdk, cell.clients): cell for cell in cells if cell.source == source.name}
    ours, theirs = found[OURS, 32], found[THEIRS, 32]
    good = ours.requests_per_s >= 10 * theirs.requests_per_s and not ours.failed
    rows = [Row(f"transformer-{source.name}-32", f"{source.what}; 32 clients", ours.requests_per_s, "req/s",
                "≥ 10×", good, "kserve", theirs.requests_per_s)]  # fmt: skip
    if source.name == "hop":
        rows.append(Row("transformer-memory", "resident after the load, no hooks", ours.resident_mib, "MiB", "≤ 65",
                        ours.resident_mib <= 65, "kserve", theirs.resident_mib))  # fmt: skip
    if source.answer:  # else the predictor alone is asked something else
        added = {sdk: round(found[sdk, 1].p50_ms - found[ALONE, 1].p50_ms, 3) for sdk in source.beside}
        rows.append(Row(f"transformer-{source.name}-added", f"{source.what}; p50 added, 1 client", added[OURS], "ms",
                        f"≤ {_ADDED_MS}", added[OURS] <= _ADDED_MS, "kserve", added[THEIRS]))  # fmt: skip
        most = round(_ADDED_MS / _LEAST_ADDED_MS, 2)
        good = added[OURS] <= most * added[BARE]
        rows.append(Row(f"transformer-{source.name}-least", f"{source.what}; the same beside the baseline",
                        added[OURS], "ms", f"≤ {most}×", good, BARE, added[BARE]))  # fmt: skip
    else:
        share = 100 / found[ALONE, 32].requests_per_s
        kept = [round(share * one.requests_per_s, 1) for one in (ours, theirs)]
        rows.append(Row(f"transformer-{source.name}-kept", f"{source.what}; share of the predictor's rate alone",
                        kept[0], "%", "–", True, "kserve", kept[1]))  # fmt: skip
    return rows


def _starts(source: Source, runs: int, options: Options) -> list[Row]:
    taken = {sdk: [_start(source, sdk, options) for _ in range(runs)] for sdk in (THEIRS, OURS)}
    ours, theirs = (round(statistics.median(taken[sdk][1:]), 3) for sdk in (OURS, THEIRS))
    return [Row("transformer-start", "process started → ready", ours, "s", "≤ 0.5", ours <= 0.5, "kserve", theirs)]


def _start(source: Source, sdk: str, options: Options) -> float:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        place = Place(load(options)["mnist"], free_port(), Path(folder), options)
        command, started = _command(source, sdk, 1, place), time.monotonic()
        with running([command], place.port, BOTH_CORES.server, place.folder) as server:
            server.wait_ready("/v2/health/ready")
            return time.monotonic() - started


def _tables(cells: Sequence[Cell]) -> str:
    lines = ["| transformer | 1 client, req/s (p50 ms) | 8 clients | 32 clients |", "|---|---|---|---|"]
    for source, sdk in dict.fromkeys((cell.source, cell.sdk) for cell in cells):
        found = [cell for cell in cells if (cell.source, cell.sdk) == (source, sdk)]
        values = " | ".join(f"{cell.requests_per_s:,.0f} ({cell.p50_ms:g})" for cell in found)
        lines.append(f"| {source}, {sdk} | {values} |")
    return "\n".join(lines)
