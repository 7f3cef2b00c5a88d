"""The sample on this machine: its archive, the storage-initializer, the adapter and a real TorchServe."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.isvc_process import Sandbox

SAMPLE = Path(__file__).parents[3] / "examples/bert"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_sample_answers_its_request_and_nothing_is_left_running(sandbox: Sandbox) -> None:
    volume = sandbox.folder / "leeway"
    subprocess.run([sys.executable, SAMPLE / "build.py", volume], check=True, capture_output=True)

    done = sandbox.run(
        *(SAMPLE / "inferenceservice.yaml", "--pvc", f"leeway={volume}"),
        *("--request", SAMPLE / "sample.json", "--expect", '{"predictions": [4]}'),
        timeout=200,
    )

    assert done.returncode == 0, done.stderr
    processes = subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout
    assert str(sandbox.temporary) not in processes
    assert list(sandbox.temporary.iterdir()) == []
