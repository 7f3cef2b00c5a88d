"""From the start of the .mar runtime's process to ready, with two processors and with one, by control groups.

What is counted is the time beyond that of a process that only sleeps. Everything that is read is in the page cache.
``--before DIR`` starts the server of another checkout in turn with this one's.
"""

from __future__ import annotations

import itertools
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.environments import PROGRAMS
from tests.bench.options import Options
from tests.bench.peers.ours import ROOT, sources
from tests.bench.processes import BOTH_CORES, ONE_CORE, Command, Cores, free_port, running
from tests.bench.report import Measured, Row, slug, versions
from tests.support.limits import processor_limit

MODELS = {
    "bare": "model.pt of 100 MB",
    "archive": "archive with a handler",
    "torchvision": "archive whose handler imports torchvision",
    "onnx": "model.onnx",
}
TARGETS = {
    ("bare", 2): 2.0, ("archive", 2): 2.0, ("onnx", 2): 0.8, ("bare", 1): 2.5, ("archive", 1): 2.5, ("onnx", 1): 0.8,
}  # seconds, by model and number of processors  # fmt: skip
TORCHVISION = 0.3  # seconds more than the archive without it
RUNS = 7
PHASES = ("imports", "archives", "models")
_PHASE = re.compile(r'^server_start_seconds\{phase="(\w+)"\} (\S+)$', re.MULTILINE)
_SLEEPING = 'import time; print("up", flush=True); time.sleep(60)'


@dataclass(frozen=True)
class Start:
    """One start: seconds until ready, and those of each phase that the server tells."""

    checkout: str
    model: str
    processors: int
    seconds: float
    phases: Mapping[str, float]


def measure(options: Options) -> Measured:
    """Rows of the suite."""
    checkouts = {"ours": ROOT, **({"before": options.before.absolute()} if options.before else {})}
    runs = 1 if options.quick else RUNS
    starts: list[Start] = []
    with tempfile.TemporaryDirectory(prefix="starts-") as folder:
        subprocess.run([sys.executable, PROGRAMS / "build_starts.py", folder], check=True)
        each = list(itertools.product(MODELS, checkouts.items()))
        for cores in (BOTH_CORES, ONE_CORE):
            for model, (_, root) in each:  # compiles what has no bytecode, and fills the page cache
                _start(root, Path(folder) / model, cores)
            for _ in range(runs):
                sleeping = _sleep(cores)
                for model, (name, root) in each:
                    seconds, phases = _start(root, Path(folder) / model, cores)
                    starts.append(Start(name, model, cores.count, seconds - sleeping, phases))
    rows = [row for cores in (BOTH_CORES, ONE_CORE) for row in _rows(starts, cores, "before" in checkouts)]
    return Measured(rows, versions(), [vars(start) for start in starts], tables=_phases(starts))


def _start(root: Path, model_dir: Path, cores: Cores) -> tuple[float, Mapping[str, float]]:
    """Seconds until the server of a checkout is ready, and its phases."""
    with tempfile.TemporaryDirectory(prefix="start-") as name, processor_limit(cores.count) as limit:
        folder, port = Path(name), free_port()
        given = {"HOME": name, "TMPDIR": name, "PATH": os.defpath, "PYTHONPATH": sources(root),
                 "GRPC_PORT": str(free_port()), "TERMINATION_LOG": f"{name}/ended"}  # fmt: skip
        flags = (f"--model-dir={model_dir}", f"--http-port={port}", f"--work-dir={name}/work")
        began = time.monotonic()
        with running(
            [Command((sys.executable, "-m", "mar_runtime", *flags), given)], port, cores.server, folder, limit
        ) as server:
            server.wait_ready("/v2/health/ready")
            seconds = time.monotonic() - began
            phases = {phase: float(value) for phase, value in _PHASE.findall(server.text("/metrics"))}
    return seconds, phases


def _sleep(cores: Cores) -> float:
    """Seconds until a process that only sleeps is up."""
    with processor_limit(cores.count) as limit:
        began = time.monotonic()
        command = ["taskset", "--cpu-list", cores.server, sys.executable, "-c", _SLEEPING]
        with subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=limit) as process:
            assert process.stdout is not None
            process.stdout.readline()
            seconds = time.monotonic() - began
            process.kill()
    return seconds


def _rows(starts: Sequence[Start], cores: Cores, has_before: bool) -> list[Row]:
    def median(checkout: str, model: str) -> float:
        found = [start.seconds for start in starts
                 if (start.checkout, start.model, start.processors) == (checkout, model, cores.count)]  # fmt: skip
        return round(statistics.median(found), 2)

    def row(model: str, what: str, target: float, value: Callable[[str], float]) -> Row:
        ours = value("ours")
        return Row(
            f"starts-{slug(model)}-{cores.count}", f"{what}, {cores.name}", ours, "s", f"≤ {target:g}", ours <= target,
            *(["the other checkout", value("before")] if has_before else []),
        )  # fmt: skip

    found = [
        row(model, MODELS[model], target, lambda checkout, model=model: median(checkout, model))
        for (model, count), target in TARGETS.items()
        if count == cores.count
    ]
    more = row(
        "torchvision", "torchvision in a handler, more than without", TORCHVISION,
        lambda checkout: round(median(checkout, "torchvision") - median(checkout, "archive"), 2),
    )  # fmt: skip
    return [*found, more]


def _phases(starts: Sequence[Start]) -> str:
    """The medians of what the server of this checkout tells of its phases, in Markdown."""
    lines = [f"| start | {' | '.join(PHASES)} |", "|---|---|---|---|"]
    groups: dict[tuple[str, int], list[Mapping[str, float]]] = {}
    for start in starts:
        if start.checkout == "ours":
            groups.setdefault((start.model, start.processors), []).append(start.phases)
    for (model, processors), each in groups.items():
        medians = (f"{statistics.median(one[phase] for one in each):.2f} s" for phase in PHASES)
        lines.append(f"| {MODELS[model]}, processors: {processors} | {' | '.join(medians)} |")
    return "\n".join(lines)
