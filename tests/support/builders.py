"""Builders of the objects that tests are about: each gives a complete one, a test says only what matters to it.

Fields of Kubernetes objects are given by their names in YAML. Without arguments everything fits together: the service
`torchserve` of the story in namespace `models`, served by the runtime `kserve-torchserve`, whose pod is ready.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from isvc_operator.api.components import ModelSpec
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.kinds import kind_named
from isvc_operator.api.parsing import parse_inference_service, parse_serving_runtime
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.config import OperatorConfig
from isvc_operator.observe.component import ComponentObservation, Rollout
from isvc_operator.observe.pods import Stage
from isvc_operator.observe.status import Observation
from isvc_operator.render.children import render
from isvc_operator.resolve.component import StorageContext
from isvc_operator.resolve.requested import storage_requests
from isvc_operator.resolve.runtime import Runtimes
from isvc_operator.resolve.service import Resolved, resolve
from tests.support.yaml_files import document

Manifest = dict[str, Any]
Fields = Mapping[str, Any]

NAMESPACE = "models"
SERVICE_UID = "5e7a1c0e-0000-4000-8000-000000000001"
NOW = "2026-01-01T12:00:00Z"
EARLIER = "2026-01-01T11:00:00Z"

SHIPPED_RUNTIME = Path(__file__).parents[2] / "manifests" / "runtimes" / "kserve-torchserve.yaml"

_STORY_MODEL: Fields = {
    "modelFormat": {"name": "pytorch"},
    "storageUri": "pvc://leeway",
    "protocolVersion": "v1",
}

# --- services ----------------------------------------------------------------------------------------


def a_service_body(
    name: str = "torchserve",
    *,
    namespace: str = NAMESPACE,
    uid: str = SERVICE_UID,
    generation: int = 1,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    model: Fields | None = {},  # noqa: B006 - never changed
    predictor: Fields | None = None,
    spec: Fields | None = None,
    status: Fields | None = None,
) -> Manifest:
    """An InferenceService as the API server holds it. `model` goes over the story's; None leaves it out."""
    metadata: Manifest = {
        "name": name,
        "namespace": namespace,
        "uid": uid,
        "generation": generation,
        "resourceVersion": "1",
    }
    if labels is not None:
        metadata["labels"] = dict(labels)
    if annotations is not None:
        metadata["annotations"] = dict(annotations)
    served = {} if model is None else {"model": {**_STORY_MODEL, **model}}
    body: Manifest = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": metadata,
        "spec": {"predictor": {**served, **(predictor or {})}, **(spec or {})},
    }
    return body if status is None else {**body, "status": dict(status)}


def a_service(name: str = "torchserve", **fields: Any) -> InferenceService:
    """The same, parsed."""
    return parse_inference_service(a_service_body(name, **fields))


def a_model(**fields: Any) -> ModelSpec:
    """The story's model with `fields` over it."""
    return ModelSpec.model_validate({**_STORY_MODEL, **fields}, by_alias=True, by_name=False)


# --- runtimes ----------------------------------------------------------------------------------------


def a_format(
    name: str = "pytorch", version: str | None = "1", *, auto_select: bool = True, priority: int | None = None
) -> Manifest:
    """One of a runtime's model formats."""
    entry: Manifest = {"name": name, "autoSelect": auto_select}
    if version is not None:
        entry["version"] = version
    if priority is not None:
        entry["priority"] = priority
    return entry


def a_runtime_body(
    name: str = "kserve-torchserve",
    *,
    namespace: str | None = None,
    formats: Sequence[Fields] = (a_format(),),
    protocols: Sequence[str] = ("v1",),
    server_type: str | None = "torchserve",
    metadata_annotations: Mapping[str, str] | None = None,
    created: str = "2026-01-01T00:00:00Z",
    container: Fields | None = None,
    sidecars: Sequence[Fields] = (),
    **spec: Any,
) -> Manifest:
    """A runtime of one container, if it has no `sidecars`; one of the cluster where no namespace is given."""
    metadata: Manifest = {"name": name, "creationTimestamp": created, "uid": f"uid-of-{name}", "resourceVersion": "1"}
    if namespace is not None:
        metadata["namespace"] = namespace
    own = {} if server_type is None else {"serving.kserve.io/server-type": server_type}
    if own or metadata_annotations:
        metadata["annotations"] = {**own, **(metadata_annotations or {})}
    server = {"name": "kserve-container", "image": "registry.example/torchserve:1.0", **(container or {})}
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ClusterServingRuntime" if namespace is None else "ServingRuntime",
        "metadata": metadata,
        "spec": {
            "supportedModelFormats": [dict(item) for item in formats],
            "protocolVersions": list(protocols),
            "containers": [server, *(dict(item) for item in sidecars)],
            **spec,
        },
    }


def a_runtime(name: str = "kserve-torchserve", **fields: Any) -> ServingRuntime:
    """The same, parsed."""
    return parse_serving_runtime(a_runtime_body(name, **fields))


def the_shipped_runtime_body() -> Manifest:
    """The runtime of `manifests/runtimes`."""
    body: Manifest = document(SHIPPED_RUNTIME)
    return body


def the_shipped_runtime() -> ServingRuntime:
    """The same, parsed."""
    return parse_serving_runtime(the_shipped_runtime_body())


# --- what resolving and rendering make of them --------------------------------------------------------


def a_resolved(
    service: InferenceService | None = None,
    runtime: ServingRuntime | None = None,
    config: OperatorConfig | None = None,
    context: StorageContext | None = None,
    **surroundings: Any,
) -> Resolved:
    """A service resolved with one runtime of the cluster; ``surroundings`` is what else ``resolve`` takes."""
    runtimes = Runtimes(cluster=(runtime or a_runtime(),))
    service = service or a_service()
    requests = storage_requests(service)
    storage = replace(context, requests=requests) if context else StorageContext(requests)
    return resolve(service, runtimes, config or OperatorConfig(), storage=storage, **surroundings)


def the_children(
    service: InferenceService | None = None,
    runtime: ServingRuntime | None = None,
    config: OperatorConfig | None = None,
    context: StorageContext | None = None,
) -> dict[str, Manifest]:
    """The rendered children by their kind."""
    config = config or OperatorConfig()
    return {child["kind"]: child for child in render(a_resolved(service, runtime, config, context), config)}


def a_child(kind: str = "Deployment", **fields: Any) -> Manifest:
    """A small child of the service, as `render` makes it."""
    metadata = {
        "name": "torchserve-predictor",
        "namespace": NAMESPACE,
        "labels": {"serving.kserve.io/inferenceservice": "torchserve"},
        "annotations": {},
        "ownerReferences": [an_owner()],
    }
    return {"apiVersion": kind_named(kind).api_version, "kind": kind, "metadata": metadata, "spec": {}, **fields}


def an_owner(uid: str = SERVICE_UID) -> Manifest:
    """The owner reference that every child carries."""
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "name": "torchserve",
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


# --- pods --------------------------------------------------------------------------------------------


def running() -> Manifest:
    """The state of a container that runs."""
    return {"running": {"startedAt": EARLIER}}


def waiting(reason: str, message: str | None = None) -> Manifest:
    """The state of a container that does not run yet, or not again yet."""
    said = {} if message is None else {"message": message}
    return {"waiting": {"reason": reason, **said}}


def ended(exit_code: int, message: str | None = None, *, reason: str | None = None, instance: str = "one") -> Manifest:
    """The state of a container that has run; `instance` tells its runs apart."""
    said = {} if message is None else {"message": message}
    why = reason or ("Completed" if exit_code == 0 else "Error")
    return {"terminated": {"exitCode": exit_code, "reason": why, "containerID": f"containerd://{instance}", **said}}


def a_container(
    name: str = "kserve-container",
    state: Fields | None = None,
    *,
    before: Fields | None = None,
    is_ready: bool = False,
) -> Manifest:
    """The status of a container that is in `state`; `before` is how its previous run ended."""
    restarts = 0 if before is None else 1
    return {
        "name": name,
        "state": dict(state or running()),
        "lastState": dict(before or {}),
        "restartCount": restarts,
        "ready": is_ready,
    }


def an_initializer(state: Fields | None = None, *, before: Fields | None = None) -> Manifest:
    """The status of the storage-initializer; by default it has done its work."""
    return a_container("storage-initializer", state or ended(0), before=before)


def a_pod(
    name: str = "torchserve-predictor-1-a",
    *,
    component: str = "predictor",
    app: str | None = None,
    template: str = "1",
    created: str = EARLIER,
    phase: str = "Pending",
    node: str | None = "node-1",
    ready: bool = False,
    since: str | None = None,
    initializer: Fields | None = None,
    containers: Sequence[Fields] = (),
    conditions: Sequence[Fields] = (),
    deleted: str | None = None,
    **status: Any,
) -> Manifest:
    """A pod, of the predictor by default; `template` tells the revisions of the Deployment apart, `app` Deployments.

    `since` is when it became ready, or not ready.
    """
    changed = {} if since is None else {"lastTransitionTime": since}
    metadata: Manifest = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-of-{name}",
        "resourceVersion": "1",
        "creationTimestamp": created,
        "labels": {
            "serving.kserve.io/inferenceservice": "torchserve",
            "component": component,
            "app": app or f"isvc.torchserve-{component}",
            "pod-template-hash": template,
        },
    }
    if deleted is not None:
        metadata["deletionTimestamp"] = deleted
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {} if node is None else {"nodeName": node},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False", **changed}, *conditions],
            "initContainerStatuses": [] if initializer is None else [dict(initializer)],
            "containerStatuses": [dict(item) for item in containers],
            **status,
        },
    }


def a_ready_pod(name: str = "torchserve-predictor-1-a", **fields: Any) -> Manifest:
    """A pod that serves."""
    serving = {"phase": "Running", "ready": True, "initializer": an_initializer(), "containers": [a_container()]}
    return a_pod(name, **{**serving, **fields})


def a_crashed_pod(name: str = "torchserve-predictor-1-a", exit_code: int = 1, **fields: Any) -> Manifest:
    """A pod whose server has just ended, for the first time."""
    server = a_container(state=ended(exit_code, "ValueError: no such layer"))
    crashed = {"phase": "Running", "initializer": an_initializer(), "containers": [server]}
    return a_pod(name, **{**crashed, **fields})


# --- Deployments -------------------------------------------------------------------------------------


def a_deployment_status(
    *,
    observed_generation: int = 1,
    updated: int = 1,
    total: int = 1,
    available: int = 1,
    enough: bool = True,
    progressing: str | None = "NewReplicaSetAvailable",
    conditions: Sequence[Fields] = (),
) -> Manifest:
    """The status of a Deployment, by default of one that is rolled out; `progressing` None is before any progress.

    `enough`: no more pods are unavailable than its strategy allows.
    """
    known: list[Fields] = [{"type": "Available", "status": "True" if available and enough else "False"}]
    if progressing is not None:
        moving = "False" if progressing == "ProgressDeadlineExceeded" else "True"
        known.append({"type": "Progressing", "status": moving, "reason": progressing})
    return {
        "observedGeneration": observed_generation,
        "updatedReplicas": updated,
        "replicas": total,
        "availableReplicas": available,
        "conditions": [*known, *conditions],
    }


def a_deployment(*, generation: int = 1, replicas: int = 1, paused: bool = False, **status: Any) -> Manifest:
    """The predictor's Deployment as the API server and its controller leave it."""
    child = a_child("Deployment", spec={"replicas": replicas, **({"paused": True} if paused else {})})
    return {
        **child,
        "metadata": {**child["metadata"], "generation": generation},
        "status": a_deployment_status(**status),
    }


# --- observations ------------------------------------------------------------------------------------

ROLLED_OUT = Rollout(complete=True, serving=1, message="1 of 1 pods updated, 1 available")
STARTING = Rollout(complete=False, serving=0, message="1 of 1 pods updated, 0 available")


def seen(kind: str = "predictor", **fields: Any) -> ComponentObservation:
    """What is seen of a component; by default of one that serves."""
    stage = Stage("StartingServer", "pod torchserve-predictor-1-a: the server is starting and loading the model")
    known: dict[str, Any] = {"rollout": ROLLED_OUT, "pods": [a_ready_pod()], "failure": None, "stage": stage}
    return ComponentObservation(kind=kind, **{**known, **fields})


def an_observation(*others: ComponentObservation, **fields: Any) -> Observation:
    """What is seen of a service; by default of one that serves. Fields of the predictor may be given as such."""
    service = fields.pop("service", None) or a_service()
    names = ("rollout", "pods", "failure", "stage", "log", "progress", "autoscaler")
    predictor = seen(**{name: fields.pop(name) for name in names if name in fields})
    known: dict[str, Any] = {"resolved": a_resolved(service)}
    return Observation(service=service, components=(predictor, *others), **{**known, **fields})
