"""The sample is built once for all of its tests, by the command its README gives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[3] / "examples/bert"


def build(outdir: Path) -> str:
    command = [sys.executable, str(SAMPLE / "build.py"), str(outdir)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="session")
def volume(tmp_path_factory: pytest.TempPathFactory) -> Path:
    outdir = tmp_path_factory.mktemp("bert") / "volume"
    build(outdir)
    return outdir
