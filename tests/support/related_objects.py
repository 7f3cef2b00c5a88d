"""A service together with its objects, as a cluster has them while it starts, serves or fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isvc.view.source import Related
from isvc_operator.api.names import CONTAINER_INITIALIZER
from isvc_operator.errors import Problem
from isvc_operator.manifests import name_of
from isvc_operator.observe.component import rollout_of
from isvc_operator.observe.pod_events import mount_failure, with_probe
from isvc_operator.observe.pods import PREPARING, first_failure, newest_revision, stage
from isvc_operator.observe.status import derive_status
from tests.support.builders import (
    EARLIER,
    NOW,
    Manifest,
    a_deployment,
    a_ready_pod,
    a_runtime_body,
    a_service_body,
    an_observation,
    the_children,
)


def a_related(
    *pods: Manifest,
    deployment: Manifest | None = None,
    events: Sequence[Manifest] = (),
    logs: Mapping[tuple[str, str], str] | None = None,
    **observed: Any,
) -> Related:
    """The story's service with these pods, and the status that the operator derives of them; by default it serves.

    ``observed`` is what else the operator observes, such as a problem.
    """
    found = pods or (a_ready_pod(),)
    serving = not pods
    deployment = deployment or a_deployment(available=int(serving))
    predictor = _observed(found, deployment, logs or {}, events)
    status = derive_status(an_observation(**predictor, **observed), NOW).as_dict()
    body = a_service_body(status=status)
    body["metadata"]["creationTimestamp"] = EARLIER
    children = the_children()
    return Related(
        service=body,
        children=[children["Ingress"], children["Service"], _rolled_out(children["Deployment"], deployment)],
        pods=found,
        events=events,
        runtimes=[a_runtime_body()],
        logs=logs or {},
    )


def an_event(
    reason: str, message: str = "", *, about: str = "Pod/torchserve-predictor-1-a", at: str = NOW, type_: str = "Normal"
) -> Manifest:
    """An Event; `about` is the kind and the name of an object."""
    kind, _, name = about.partition("/")
    uid = f"uid-of-{name}" if kind == "Pod" else ""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{reason}", "namespace": "models"},
        "involvedObject": {"kind": kind, "name": name, "namespace": "models", "uid": uid},
        "type": type_,
        "reason": reason,
        "message": message,
        "count": 1,
        "firstTimestamp": at,
        "lastTimestamp": at,
    }


def a_problem_of(reason: str, message: str) -> Related:
    """The story's service, which cannot be served as written."""
    observed = an_observation(resolved=None, problem=Problem(reason, message), pods=[])
    status = derive_status(observed, NOW).as_dict()
    return Related(service=a_service_body(status=status), runtimes=[a_runtime_body()])


def _observed(
    pods: Sequence[Manifest],
    deployment: Manifest,
    logs: Mapping[tuple[str, str], str],
    events: Sequence[Manifest],
) -> dict[str, Any]:
    newest = newest_revision(pods)
    failure = first_failure(newest)
    if failure:
        failure = with_probe(failure, _of_pod(failure.pod, events))
    elif stage(newest).reason == PREPARING:
        failure = mount_failure(newest[0], _of_pod(name_of(newest[0]), events))
    return {
        "rollout": rollout_of(deployment),
        "pods": newest,
        "failure": failure,
        "stage": stage(newest),
        "log": logs.get((failure.pod, failure.container or ""), "") if failure else "",
        "progress": next((line for (_, name), line in logs.items() if name == CONTAINER_INITIALIZER), ""),
    }


def _of_pod(name: str, events: Sequence[Manifest]) -> list[Manifest]:
    return [event for event in events if event["involvedObject"]["name"] == name]


def _rolled_out(rendered: Manifest, observed: Manifest) -> Manifest:
    """Return the rendered Deployment with what the API server and its controller add to it."""
    metadata = {**rendered["metadata"], "generation": observed["metadata"]["generation"]}
    spec = {**rendered["spec"], "replicas": observed["spec"]["replicas"]}
    return {**rendered, "metadata": metadata, "spec": spec, "status": observed["status"]}
