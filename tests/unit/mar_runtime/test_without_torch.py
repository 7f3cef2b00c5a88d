"""The image for bare ONNX files has the server, and nothing that only archives and torch's formats need."""

from __future__ import annotations

import subprocess
import sys

import pytest

LACKING = ("torch", "torchvision", "ts", "uv", "captum", "PIL")


@pytest.mark.process
def test_the_server_can_be_imported_without_what_only_archives_need() -> None:
    code = f"import sys; sys.modules.update(dict.fromkeys({LACKING!r})); import mar_runtime.server"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
