"""The sample is built once for all of its tests, by the command its README gives."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

BUILD = Path(__file__).parents[3] / "examples/bert/build.py"
Build = Callable[[Path], str]


@pytest.fixture(scope="session")
def build() -> Build:
    """Runs the command; what it says."""

    def run(outdir: Path) -> str:
        command = [sys.executable, str(BUILD), str(outdir)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    return run


@pytest.fixture(scope="session")
def volume(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    outdir = tmp_path_factory.mktemp("bert") / "volume"
    build(outdir)
    return outdir
