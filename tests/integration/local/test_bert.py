"""The sample on this machine: its archive, the storage-initializer and each of the shipped runtimes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.build_cache import sample
from tests.support.isvc_process import Sandbox
from tests.support.local_services import write_yaml

SAMPLE = Path(__file__).parents[3] / "examples/bert"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("runtime", ["kserve-torchserve", "isvc-mar"])
def test_the_sample_gets_its_response_and_nothing_is_left_running(sandbox: Sandbox, runtime: str) -> None:
    volume = sandbox.folder / "leeway"
    service = yaml.safe_load((SAMPLE / "inferenceservice.yaml").read_text())
    service["metadata"]["annotations"] = {"isvc-operator.io/runtime": runtime}
    shutil.copytree(sample("bert"), volume)

    with sandbox.running(
        *(write_yaml(sandbox.folder / "service.yaml", service), "--pvc", f"leeway={volume}"),
        *("--request", SAMPLE / "sample.json", "--expect", '{"predictions": [4]}'),
    ) as process:
        _, log = process.communicate(timeout=200)

    assert process.returncode == 0, log
    processes = subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout
    assert str(sandbox.temporary) not in processes
    assert list(sandbox.temporary.iterdir()) == []
