"""``isvc run`` where there is no /proc and no prctl, as on macOS, as far as a Linux machine can show it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tests.support.build_cache import sample
from tests.support.isvc_process import Sandbox, read_until, stop
from tests.support.local_services import runtime, service, write_yaml

EXAMPLE = Path(__file__).parents[3] / "examples/bert"
NOT_LINUX = {"PYTHONPATH": str(Path(__file__).parents[2] / "support/not_linux")}


def test_a_service_starts_is_started_again_and_ends(sandbox: Sandbox) -> None:
    file = write_yaml(sandbox.folder / "services.yaml", service(), service("fails", env={"FAIL": "so"}), runtime())
    with sandbox.running(
        file, "--pvc", f"models={sandbox.folder / 'models'}", "--watch", environment=NOT_LINUX
    ) as process:
        read_until(process.stdout, "Ctrl-C stops it.")
        read_until(process.stderr, "fails/kserve-container failed again, same cause (×2); it is started again")
        answered = sandbox.ask("first.default.example.com", "/v1/models/fake:predict", {"instances": [1]})
        stop(process)

    assert answered[0] == 200
    assert list(sandbox.temporary.iterdir()) == []


@pytest.mark.parametrize("name", ["isvc-mar", "kserve-torchserve"])
def test_the_sample_gets_its_response(sandbox: Sandbox, name: str) -> None:
    """With a folder for temporary files as macOS gives its users, whose path has 48 characters."""
    long = sandbox.temporary / ("x" * (47 - len(str(sandbox.temporary))))
    long.mkdir()
    body = yaml.safe_load((EXAMPLE / "inferenceservice.yaml").read_text())
    body["metadata"]["annotations"] = {"isvc-operator.io/runtime": name}
    shutil.copytree(sample("bert"), sandbox.folder / "leeway")

    with sandbox.running(
        *(write_yaml(sandbox.folder / "service.yaml", body), "--pvc", f"leeway={sandbox.folder / 'leeway'}"),
        *("--request", EXAMPLE / "sample.json", "--expect", '{"predictions": [4]}'),
        environment={**NOT_LINUX, "TMPDIR": str(long)},
    ) as process:
        _, log = process.communicate(timeout=200)

    assert process.returncode == 0, log
    assert len(str(long)) == 48
