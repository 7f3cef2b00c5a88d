"""What libraries warn about that nobody can change."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest

from data_plane.model_server import libraries

TEXTS = ("`torch.jit.load` is deprecated. Please switch to `torch.export`.", "The pynvml package is deprecated", "else")
PROGRAM = "import sys, warnings\nfor text in sys.argv[1:]: warnings.warn(text, FutureWarning)"


@pytest.mark.process
def test_in_workers_only_other_warnings_are_told() -> None:
    environment = {**os.environ, "PYTHONWARNINGS": libraries.ENVIRONMENT["PYTHONWARNINGS"]}

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *TEXTS], env=environment, capture_output=True, text=True, check=True
    )

    assert [text for text in TEXTS if text in done.stderr] == ["else"]


def test_in_the_server_only_other_warnings_are_told() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        libraries.ignore_warnings()
        for text in TEXTS:
            warnings.warn(text, FutureWarning, stacklevel=1)

    assert [str(warning.message) for warning in told] == ["else"]
