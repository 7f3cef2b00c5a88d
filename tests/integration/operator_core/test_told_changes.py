"""Why pods were replaced, as `kubectl describe` of the service tells it, on a real API server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from isvc.commands import main
from tests.integration.operator_core.conftest import new_namespace
from tests.support.apiserver import ApiServer, install_crds, install_runtime, running
from tests.support.builders import SHIPPED_RUNTIME
from tests.support.namespace import Namespace, story_service
from tests.support.operator_process import operator
from tests.support.waiting import eventually
from tests.support.yaml_files import document

PREDICTOR = "torchserve-predictor"
NEW_PODS = f"Deployment {PREDICTOR} gets new pods (revision 2)"
IMAGE = "spec.containers[kserve-container].image"
REVISION = "deployment.kubernetes.io/revision"


@pytest.fixture(scope="module")
def server(assets: Path) -> Iterator[ApiServer]:
    """An API server of its own: its runtime changes."""
    with running(assets) as server:
        install_crds(server)
        install_runtime(server)
        yield server


@pytest.fixture(scope="module")
def log(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("told") / "operator.log"
    with operator(server, path):
        yield path


@pytest.fixture
def served(server: ApiServer, log: Path) -> Namespace:
    """A service whose Deployment is rolled out, as its first revision."""
    namespace = new_namespace(server)
    roll_out(namespace)
    return namespace


def roll_out(namespace: Namespace) -> None:
    namespace.apply_story(minReplicas=1)
    namespace.wait_for("deployment", PREDICTOR)
    namespace.kubectl("annotate", "deployment", PREDICTOR, f"{REVISION}=1")
    namespace.play_finished_rollout()
    namespace.wait_for_condition("Ready", "True")


def told(namespace: Namespace, reason: str) -> str:
    """The message of the first Event of this reason on the service that tells of the second revision.

    One before it is possible: the operator may see the service before a runtime that was created with it.
    """
    selector = f"--field-selector=involvedObject.kind=InferenceService,reason={reason}"

    def found() -> list[str]:
        events = json.loads(namespace.kubectl("get", "events", selector, "--output=json"))["items"]
        return [event["message"] for event in events if NEW_PODS in event["message"]]

    return str(eventually(found, f"an Event {reason}")[0])


def test_a_change_of_the_runtime(server: ApiServer, log: Path, served: Namespace) -> None:
    runtime = document(SHIPPED_RUNTIME)
    runtime["spec"]["containers"][0]["image"] = "registry.example/next:1"
    server.apply("", runtime)

    message = told(served, "RolloutUpdated")
    assert message == f"{NEW_PODS} after a change of ClusterServingRuntime/kserve-torchserve: {IMAGE}"
    assert f"{served.name}/torchserve: {message}" in log.read_text()
    assert message in served.kubectl("describe", "inferenceservice", "torchserve")


def test_a_runtime_that_is_deleted_while_another_one_fits(
    server: ApiServer, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`isvc diagnose` says why the pods were replaced, though nothing is wrong with the service."""
    namespace = new_namespace(server)
    mine = document(SHIPPED_RUNTIME) | {"kind": "ServingRuntime"}
    mine["metadata"]["name"] = "mine"
    mine["spec"]["containers"][0]["image"] = "registry.example/mine:1"
    namespace.apply(mine)
    roll_out(namespace)
    namespace.kubectl("delete", "servingruntime", "mine")
    message = told(namespace, "RolloutUpdated")
    namespace.play_finished_rollout()
    namespace.wait_for_condition("Ready", "True")

    assert main(["diagnose", "torchserve", f"--kubeconfig={server.kubeconfig}", f"--namespace={namespace.name}"]) == 0

    assert (
        message
        == f"{NEW_PODS} after a change of ClusterServingRuntime/kserve-torchserve and ServingRuntime/mine: {IMAGE}"
    )
    out = capsys.readouterr().out
    assert out.splitlines()[1:3] == ["Nothing is wrong.", ""]
    assert re.fullmatch(f"rollout   [0-9TZ:-]+: {re.escape(message)}", out.splitlines()[3])


def test_an_image_that_is_set(served: Namespace) -> None:
    served.kubectl("set", "image", "deployment", PREDICTOR, "kserve-container=mine:1")

    assert told(served, "DriftCorrected") == (
        f"Deployment {PREDICTOR}: kubectl-set has changed spec.template.{IMAGE}, which is restored; {NEW_PODS}"
    )


def test_a_paused_deployment_is_named_until_it_is_resumed(served: Namespace) -> None:
    served.kubectl("rollout", "pause", "deployment", PREDICTOR)
    served.apply_story(minReplicas=1, model={**story_service()["spec"]["predictor"]["model"], "args": ["--debug"]})
    told(served, "RolloutUpdated")
    generation = served.wait_for("deployment", PREDICTOR)["metadata"]["generation"]
    counts = {"replicas": 1, "updatedReplicas": 0, "readyReplicas": 1, "availableReplicas": 1}
    served.patch_status("deployment", PREDICTOR, {"observedGeneration": generation, **counts})

    message = served.wait_for_condition("Ready", "False", "DeploymentPaused")["message"]
    fix = message.partition("; ")[2].partition("\n")[0]
    assert fix == f"kubectl rollout resume deployment {PREDICTOR} --namespace={served.name}"
    served.kubectl(*fix.split()[1:])
    served.play_finished_rollout()
    served.wait_for_condition("Ready", "True")
