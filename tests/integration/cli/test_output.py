"""What the commands that ask an API server more than for services print for programs, whole, as tests/golden has it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from isvc_operator import __version__
from tests.integration.cli.conftest import MANIFESTS, TEAM
from tests.support.apiserver import ApiServer
from tests.support.namespace import Namespace, story_service
from tests.support.output_goldens import OutputGoldens

RUNTIME = MANIFESTS / "runtimes" / "kserve-torchserve.yaml"


@pytest.fixture
def flags(server: ApiServer) -> list[str]:
    """The flags of a command for the namespace."""
    return [f"--kubeconfig={server.kubeconfig}", f"--namespace={TEAM}"]


def test_doctor_prints_each_check(goldens: OutputGoldens, server: ApiServer, flags: list[str]) -> None:
    service = story_service()
    service["metadata"]["name"] = "other"
    service["spec"]["predictor"]["serviceAccountName"] = "absent"
    Namespace(server, TEAM).apply(service)
    found = {server.send("GET", "/version")["gitVersion"]: "v1.36.0", __version__: "0.2.0"}

    try:
        goldens.check("doctor", 1, "doctor", *flags, changed=found)
    finally:
        server.kubectl("delete", "isvc", "other", f"--namespace={TEAM}")


def test_diff_prints_each_change(goldens: OutputGoldens, flags: list[str], tmp_path: Path) -> None:
    runtime = yaml.safe_load(RUNTIME.read_text())
    runtime["metadata"].setdefault("labels", {})["team"] = "pictures"
    (tmp_path / "runtime.yaml").write_text(yaml.safe_dump(runtime))

    goldens.check("diff", 1, "diff", str(tmp_path / "runtime.yaml"), *flags)


def test_diff_of_what_is_applied_prints_an_empty_list(goldens: OutputGoldens, flags: list[str]) -> None:
    goldens.check("diff-none", 0, "diff", str(RUNTIME), *flags)


def test_migrate_plan_prints_what_is_found(goldens: OutputGoldens, flags: list[str]) -> None:
    goldens.check("migrate-plan", 2, "migrate", "plan", *flags)
