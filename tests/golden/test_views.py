"""What is seen of a service in each of its states, its history and what is wrong with it: `views.yaml`.

Each state is compared with a service that serves. `--rewrite-goldens` writes the differences anew.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from isvc.view.diagnosis import diagnose
from isvc.view.json_shape import as_json
from isvc.view.service import view_of
from isvc.view.source import Related
from tests.support.builders import (
    NOW,
    Manifest,
    a_container,
    a_crashed_pod,
    a_deployment,
    a_pod,
    a_ready_pod,
    a_service_body,
    an_initializer,
    ended,
    running,
    waiting,
)
from tests.support.failing_pods import POD
from tests.support.outcomes import changes
from tests.support.related_objects import a_problem_of, a_related, an_event
from tests.support.yaml_files import document

GOLDEN = Path(__file__).with_name("views.yaml")
LOADING_LINE = "2026-01-01T12:00:00Z  43 % of 1.2 GiB (35.0 MiB/s, 20 s left)"
COPYING = a_pod(initializer=an_initializer(running()))
SERVES = a_related()
PROBLEM = a_problem_of("NoSupportingRuntime", "no runtime serves model format 'pytroch' with protocol v1")
REFUSED = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: pods"}
STOPPED = {"observedGeneration": 1, "conditions": [{"type": "Stopped", "status": "True"}]}
SCALED_TO_ZERO = a_deployment(replicas=0, updated=0, total=0, available=0)


def at(second: int) -> str:
    return f"2026-01-01T12:00:{second:02}Z"


def a_start() -> Related:
    """The objects of a service whose pod has become ready, each with its times."""
    pod = a_ready_pod(
        created=at(1),
        initializer=an_initializer({"terminated": ended(0)["terminated"] | {"startedAt": at(3), "finishedAt": at(5)}}),
        containers=[a_container(state={"running": {"startedAt": at(6)}})],
        conditions=[
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(2)},
            {"type": "Initialized", "status": "True", "lastTransitionTime": at(5)},
        ],
    )
    pod["status"]["conditions"][0]["lastTransitionTime"] = at(8)
    loading = an_event("LoadingModel", "43 %", about="InferenceService/torchserve", at=at(4))
    return a_related(
        pod, deployment=a_deployment(), events=[an_event("Scheduled", "assigned to node-1", at=at(2)), loading]
    )


def a_restarted_pod() -> Related:
    container = a_container(state=waiting("CrashLoopBackOff"), before=ended(1, "boom"))
    events = [
        an_event("Pulled", "is present"),
        {**an_event("BackOff", "restarting it", type_="Warning"), "count": 12},
        an_event("BackOff", "of another", about="Pod/other", type_="Warning"),
    ]
    pod = a_pod(initializer=an_initializer(), containers=[{**container, "restartCount": 7}])
    return a_related(pod, events=events, logs={(POD, "kserve-container"): "last line"})


def with_metadata(**fields: Any) -> Related:
    service = SERVES.service
    return replace(SERVES, service={**service, "metadata": {**service["metadata"], **fields}})


def changed_by(manager: str, second: int, **more: Any) -> Manifest:
    return {"manager": manager, "operation": "Update", "time": at(second), **more}


def renamed_predictor() -> Related:
    spec = {"predictor": {**SERVES.service["spec"]["predictor"], "name": "two"}}
    return replace(SERVES, service={**SERVES.service, "spec": spec})


STATES = {
    "it serves": SERVES,
    "a field is ignored": a_related(ignored=["spec.predictor.model.storageURl"]),
    "its model is copied": a_related(COPYING, logs={(POD, "storage-initializer"): LOADING_LINE}),
    "its pod is prepared": a_related(a_pod()),
    "its pod has failed since the last status": replace(a_related(COPYING), pods=[a_crashed_pod()]),
    "a volume is not mounted": a_related(
        a_pod(),
        events=[
            an_event(
                "FailedMount", 'MountVolume.SetUp failed for volume "keys" : secret "keys" not found', type_="Warning"
            )
        ],
    ),
    "it cannot be served as written": PROBLEM,
    "its credentials are missing": a_problem_of("InvalidCredentials", "secret x does not exist"),
    "it cannot be served as written, and pods of before serve": replace(SERVES, service=PROBLEM.service),
    "a quota refuses its pods": replace(
        a_related(a_pod(), deployment=a_deployment(updated=0, total=0, available=0, conditions=[REFUSED])), pods=[]
    ),
    "no operator has seen it": Related(service=a_service_body()),
    "no operator has seen its last change": Related(
        service=a_service_body(generation=2, status=SERVES.service["status"])
    ),
    "it is stopped": Related(service=a_service_body(status=STOPPED)),
    "it is deleted": with_metadata(deletionTimestamp=NOW),
    "it was changed by people": with_metadata(
        managedFields=[
            changed_by("kubectl-edit", 5),
            changed_by("isvc-operator", 6),
            changed_by("isvc-operator", 7, subresource="status"),
        ]
    ),
    "a pod of an older template is left": a_related(
        a_ready_pod("old", template="0", created="2026-01-01T09:00:00Z"),
        a_ready_pod("leaving", template="0", created="2026-01-01T10:00:00Z", deleted=NOW),
        a_pod("new", template="1", initializer=an_initializer(), containers=[a_container()]),
    ),
    "a pod fails, and one of an older template serves on": a_related(
        a_ready_pod("old", template="0", created="2026-01-01T09:00:00Z"), a_crashed_pod("new", template="1")
    ),
    "a pod of an older template has failed": replace(
        SERVES, pods=[a_ready_pod(), a_crashed_pod("old", template="0", created="2026-01-01T09:00:00Z")]
    ),
    "its predictor is replaced": renamed_predictor(),
    "it is scaled to zero": replace(a_related(deployment=SCALED_TO_ZERO), pods=()),
    "its server was restarted": a_restarted_pod(),
    "pods fail for two reasons": a_related(
        a_crashed_pod("pod-2"),
        a_crashed_pod("pod-1"),
        a_pod("pod-0", containers=[a_container(state=waiting("ImagePullBackOff", "no such image"))]),
        deployment=a_deployment(replicas=3, updated=3, total=3, available=0),
    ),
    "it has started": a_start(),
}


def shown(related: Related) -> dict[str, Any]:
    view = view_of(related)
    return {"view": as_json(view), "diagnosis": as_json(diagnose(view))}


def test_what_is_seen_of_a_service_when(request: pytest.FixtureRequest) -> None:
    before = shown(SERVES)
    found = {"it serves": before}
    found |= {name: dict(changes(before, shown(state))) for name, state in STATES.items() if state is not SERVES}

    if request.config.getoption("--rewrite-goldens"):
        GOLDEN.write_text(
            yaml.safe_dump(found, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
        )
    assert document(GOLDEN) == found
