"""The start of the server: in what order it happens, and where its time is said to have gone."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from mar_runtime.metrics.start import StartTimes
from tests.support.model_folder import write_mar

BEGUN = """
import sys
from mar_runtime import cli
from mar_runtime.pool import forkserver

def begin(*, cuda):
    print("begun with", [name for name in ("uvicorn", "numpy", "mar_runtime.server") if name in sys.modules])

forkserver.begin = begin
sys.exit(cli.main(["--model-dir", sys.argv[1], "--host", "no.such.host.invalid", "--termination-log", "/dev/null"]))
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("file", "printed"),
    [
        ("model-store/m.mar", "begun with []\n"),
        ("mar-store/m.mar", "begun with []\n"),
        ("m.mar", "begun with []\n"),
        ("model.pt", ""),
    ],
)
def test_the_imports_of_workers_begin_before_those_of_the_server(tmp_path: Path, file: str, printed: str) -> None:
    write_mar(tmp_path / file)

    done = subprocess.run([sys.executable, "-c", BEGUN, tmp_path], capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (1, printed)


def test_each_phase_of_the_start_is_a_metric_and_all_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    registry, now = CollectorRegistry(), iter([10.5, 10.75, 12.0])
    times = StartTimes(registry, 10.0, clock=lambda: next(now))

    with caplog.at_level(logging.INFO):
        for phase in ("imports", "archives", "models"):
            times.end(phase)
        times.report()

    assert generate_latest(registry).decode() == (
        "# HELP server_start_seconds How long each phase of the server's start took.\n"
        "# TYPE server_start_seconds gauge\n"
        'server_start_seconds{phase="imports"} 0.5\n'
        'server_start_seconds{phase="archives"} 0.25\n'
        'server_start_seconds{phase="models"} 1.25\n'
    )
    assert caplog.messages == ["ready 2.00 s after the start: imports 0.50 s, archives 0.25 s, models 1.25 s"]
