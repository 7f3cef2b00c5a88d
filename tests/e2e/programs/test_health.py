"""The health of services as GitOps tools tell it: Flux by the library kstatus, Argo CD by its rule for this kind.

`health.yaml` has what both find of each state. `--rewrite-goldens` writes what is found anew.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from isvc_operator.observe.component import rollout_of
from isvc_operator.observe.pods import first_failure, stage
from isvc_operator.observe.status import WaitingTemplate, derive_status
from tests.support.builders import (
    NOW,
    Manifest,
    a_container,
    a_deployment,
    a_pod,
    a_ready_pod,
    a_service,
    a_service_body,
    an_initializer,
    an_observation,
    running,
)
from tests.support.failing_services import FAILING_SERVICES
from tests.support.source_tree import ROOT

GOLDEN = Path(__file__).with_name("health.yaml")
STARTING = a_pod(phase="Running", initializer=an_initializer(), containers=[a_container()])


def with_pods(*pods: Manifest, deployment: Manifest | None = None, generation: int = 1, **observed: Any) -> Manifest:
    """A service with these pods; it has served before."""
    served = derive_status(an_observation(), NOW).as_dict()
    service = a_service_body(generation=generation, status=served)
    seen = {
        "service": a_service(generation=generation, status=served),
        "pods": pods,
        "rollout": rollout_of(deployment or a_deployment()),
        "failure": first_failure(pods),
        "stage": stage(pods),
    }
    return {**service, "status": derive_status(an_observation(**{**seen, **observed}), NOW).as_dict()}


def starts(*pods: Manifest) -> Manifest:
    """A service that starts for the first time."""
    none = a_deployment(available=0, progressing="ReplicaSetUpdated")
    return with_pods(*pods, deployment=none, service=a_service())


NOT_ROUTED = (
    "GatewayApiNotInstalled",
    "NotAllowedByListeners",
    "NotAccepted",
    "OfTheVendor",
    "AnnotationNotAllowed",
    "HostTaken",
)
REPLACING = a_deployment(updated=1, total=2, available=1, progressing="ReplicaSetUpdated")
SERVES = with_pods(a_ready_pod())
OLDER = WaitingTemplate("0.1.0", "0.2.0", ("spec.containers",))
STATES: dict[str, Manifest] = {
    "no operator has seen it": a_service_body(status={"observedGeneration": -1}),
    "WaitingForDeployment": starts(),
    "Scheduling": starts(a_pod(node=None)),
    "PreparingPod": starts(a_pod()),
    "LoadingModel": starts(a_pod(initializer=an_initializer(running()))),
    "StartingServer": starts(STARTING),
    "it serves": SERVES,
    "its change is not seen yet": {**SERVES, "metadata": {**SERVES["metadata"], "generation": 2}},
    "its change is rolled out": with_pods(STARTING, deployment=REPLACING, generation=2),
    "its runtime's change is rolled out": with_pods(STARTING, deployment=REPLACING),
    "its requests are about to move": with_pods(a_ready_pod(), held=True),
    "the operator was upgraded": with_pods(a_ready_pod(), waiting={"predictor": OLDER}),
    "the operator was upgraded and its turn comes": with_pods(
        a_ready_pod(), waiting={"predictor": replace(OLDER, queued=True)}
    ),
    "it is scaled to zero": with_pods(deployment=a_deployment(replicas=0, updated=0, total=0, available=0)),
    "it is deleted": {**SERVES, "metadata": {**SERVES["metadata"], "deletionTimestamp": NOW, "finalizers": ["theirs"]}},
    **{name: related.service for name, (_, related, _) in FAILING_SERVICES.items()},
}
# Where the tools find something else than what is meant, and why.
DIFFERENT = {
    "its change is not seen yet": "Argo CD's rule does not compare generations",
    "its runtime's change is rolled out": "Argo CD shows a rollout while the pods of before serve",
    **dict.fromkeys(
        [name for name, (reason, _, _) in FAILING_SERVICES.items() if reason in NOT_ROUTED],
        "Argo CD's rule finds a failure in the model's status alone",
    ),
}


def flux(services: list[Manifest]) -> list[str]:
    """What kstatus finds of each."""
    built = ["bash", ROOT / "tests/cluster/program", "kstatus"]
    program = subprocess.run(built, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    objects = "\n".join(map(json.dumps, services))
    return subprocess.run([program], input=objects, stdout=subprocess.PIPE, text=True, check=True).stdout.split()


def argo_cd(service: Manifest) -> str:
    """What Argo CD finds by itself of an object that is being deleted, else by its rule for InferenceServices."""
    status = service.get("status", {})
    conditions = {item["type"]: item["status"] for item in status.get("conditions", ())}
    stopped = conditions.pop("Stopped", "False")
    transition = status.get("modelStatus", {}).get("transitionStatus", "UpToDate")
    if "deletionTimestamp" in service["metadata"] or not conditions:
        return "Progressing"
    if stopped == "True":
        return "Suspended"
    if transition not in ("UpToDate", "InProgress"):
        return "Degraded"
    return "Healthy" if transition == "UpToDate" and set(conditions.values()) == {"True"} else "Progressing"


def expected(service: Manifest) -> tuple[str, str]:
    """What Flux and Argo CD are to find, by the service's conditions."""
    metadata, status = service["metadata"], service.get("status", {})
    found = {item["type"]: item["status"] for item in status.get("conditions", ())}
    if "deletionTimestamp" in metadata:
        return "Terminating", "Progressing"
    if found.get("Stopped") == "True":
        return "InProgress", "Suspended"
    if found.get("Stalled") == "True":
        return "Failed", "Degraded"
    if found.get("Ready") == "True" and status["observedGeneration"] == metadata["generation"]:
        return "Current", "Healthy"
    return "InProgress", "Progressing"


def test_gitops_tools_find_of_a_service_when(request: pytest.FixtureRequest) -> None:
    found = {
        name: {"expected": ", ".join(expected(service)), "found": f"{by_flux}, {argo_cd(service)}"}
        for (name, service), by_flux in zip(STATES.items(), flux([*STATES.values()]), strict=True)
    }

    if request.config.getoption("--rewrite-goldens"):
        GOLDEN.write_text(yaml.safe_dump(found, sort_keys=False, width=200, default_flow_style=None))
    assert yaml.safe_load(GOLDEN.read_text()) == found
    assert {name for name, row in found.items() if row["found"] != row["expected"]} == {*DIFFERENT}
