"""KServe's own CRDs and samples, to be compatible with: fetched, checked and cached by Go, never kept here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

MODULE = "github.com/kserve/kserve@v0.17.0"
CHECKSUM = "h1:IaynaBFzVQz1Xyrw5n3ncqzd5Y7L1RkO+YWvVwwtMQE="


@pytest.fixture(scope="session")
def kserve(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of KServe's sources."""
    if shutil.which("go") is None:
        pytest.skip(f"Go is not installed; it fetches {MODULE}, whose CRDs this test installs over")
    command = ["go", "mod", "download", "-json", MODULE]
    environment = os.environ | {"GOFLAGS": "-mod=mod", "GOSUMDB": "off"}  # the checksum is checked here
    folder = tmp_path_factory.mktemp("outside-any-module")
    answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    found = json.loads(answer.stdout or "{}")
    if "Dir" not in found:
        pytest.skip(f"Go could not fetch {MODULE}: {found.get('Error', answer.stderr)}")
    assert found["Sum"] == CHECKSUM
    return Path(found["Dir"])
