"""The operator as people run any of kopf's: by `kopf run`, here in this process."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kopf.testing import KopfRunner

from isvc_operator.telemetry import snapshot as snapshot_module
from tests.support.apiserver import ApiServer, install_runtime
from tests.support.namespace import Namespace
from tests.support.ports import free_port

PAGE = Path(__file__).parents[3] / "docs" / "run-with-kopf.md"
ARGUMENTS = ["run", "--standalone", "-m", "isvc_operator.handlers.operator"]


@dataclass(frozen=True)
class Probe:
    """kopf's liveness endpoint."""

    url: str

    def ask(self) -> tuple[int, Any]:
        try:
            with urllib.request.urlopen(self.url, timeout=10) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, None


@pytest.fixture
def in_reach(apiserver: ApiServer, monkeypatch: pytest.MonkeyPatch) -> ApiServer:
    install_runtime(apiserver)
    monkeypatch.setenv("KUBECONFIG", str(apiserver.kubeconfig))
    return apiserver


@pytest.fixture
def probe(in_reach: ApiServer) -> Iterator[Probe]:
    """kopf's endpoint, while the command of the page runs, on another port."""
    line = next(line for line in PAGE.read_text().splitlines() if line.startswith("kopf run "))
    port = str(free_port())
    (url,) = re.findall(r"--liveness=(\S+)", line := line.replace("8081", port))
    with KopfRunner(shlex.split(line)[1:], timeout=60.0) as runner:
        yield Probe(url)
    assert (runner.exit_code, runner.exception) == (0, None)


def test_kopf_run_serves_services_and_probes(probe: Probe, namespace: Namespace) -> None:
    namespace.apply_story()
    namespace.play_finished_rollout()
    namespace.wait_until_ready()

    assert probe.ask() == (200, {"problems": []})


def test_a_problem_of_the_operator_fails_kopfs_probe(
    probe: Probe, namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_module, "WATCH_SILENT_SECONDS", -1.0)
    namespace.apply_story()
    namespace.wait_for("deployment", "torchserve-predictor")

    assert probe.ask() == (500, None)


def test_namespaces_have_to_be_the_same_for_kopf_and_for_the_operator(in_reach: ApiServer) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "kopf", *ARGUMENTS, "--namespace=models"], capture_output=True, text=True, timeout=60
    )

    assert ended.returncode == 1
    assert "ConfigError: kopf run --namespace and the variable WATCH_NAMESPACES go together" in ended.stderr


def test_one_namespace_is_watched_if_both_name_it(
    in_reach: ApiServer, namespace: Namespace, another_namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCH_NAMESPACES", namespace.name)
    another_namespace.apply_story()
    with KopfRunner([*ARGUMENTS, f"--namespace={namespace.name}"], timeout=60.0):
        namespace.apply_story()
        namespace.wait_for("deployment", "torchserve-predictor")

    assert another_namespace.find("deployment", "torchserve-predictor") is None
