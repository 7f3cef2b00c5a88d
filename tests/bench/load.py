"""Load by wrk: so many clients, each asking again as soon as it has its answer."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.bench.work import Question

_SCRIPT = Path(__file__).with_name("wrk.lua")


@dataclass(frozen=True)
class Load:
    """What one run of the load generator saw."""

    clients: int
    requests_per_s: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    failed: int


def press(port: int, question: Question, clients: int, seconds: float, cores: str) -> Load:
    """Ask for some seconds; the load generator is held to ``cores``."""
    if not shutil.which("wrk"):
        raise SystemExit("wrk is not installed; it is a package of the same name in Debian, Fedora and Homebrew.")
    with tempfile.NamedTemporaryFile() as body:
        body.write(question.body)
        body.flush()
        command = [
            "taskset", "--cpu-list", cores, "wrk", "--threads=1", f"--connections={clients}",
            f"--duration={seconds:g}s", "--timeout=120s", f"--script={_SCRIPT}",
            f"http://127.0.0.1:{port}{question.path}", "--", body.name,
        ]  # fmt: skip
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seen = json.loads(output.splitlines()[-1])
    answered = seen["requests"] - seen["failed"]
    latencies = {name: round(seen[name], 3) for name in ("p50_ms", "p90_ms", "p99_ms")}
    return Load(clients, round(answered / seen["seconds"], 1), **latencies, failed=seen["failed"])
