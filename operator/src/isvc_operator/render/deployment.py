"""The predictor's Deployment (contract §4.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isvc_operator.api.names import CONTAINER_SERVER, CONTAINER_TRANSFORMER
from isvc_operator.config import OperatorConfig
from isvc_operator.render.metadata import child_metadata, component_labels, selector
from isvc_operator.render.storage_initializer import build_initializer, build_volumes, server_mounts
from isvc_operator.resolve import Resolved
from isvc_operator.resolve.containers import merge_items
from isvc_operator.resolve.predictor import Predictor

_STRATEGY = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
DEFAULT_PORT = 8080


def build_deployment(resolved: Resolved, config: OperatorConfig) -> dict[str, Any]:
    """The Deployment, complete but for ``replicas``, which are rendered only where the user set them."""
    service, predictor = resolved.service.metadata, resolved.predictor
    labels = component_labels(service, "predictor", predictor.name, predictor.labels)
    spec: dict[str, Any] = {
        "selector": {"matchLabels": selector(predictor.name)},
        "strategy": predictor.strategy or _STRATEGY,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "template": {
            "metadata": {"labels": labels, "annotations": dict(predictor.annotations)},
            "spec": _pod_spec(predictor, config),
        },
    }
    if predictor.replicas is not None:
        spec["replicas"] = predictor.replicas
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": child_metadata(service, predictor.name, labels, predictor.annotations),
        "spec": spec,
    }


def first_port(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """The port that the server answers on; KServe's 8080 where it names none."""
    ports = container.get("ports") or ()
    return ports[0] if ports else {"containerPort": DEFAULT_PORT, "protocol": "TCP"}


def _pod_spec(predictor: Predictor, config: OperatorConfig) -> dict[str, Any]:
    pod = dict(predictor.pod)
    containers = [_completed(item) for item in (predictor.server, *pod.pop("containers", ()))]
    if predictor.storage:
        mounts = server_mounts(predictor.storage, writable=predictor.models_writable)
        containers = [_with_models(item, mounts) for item in containers]
        volumes = build_volumes(predictor.storage, writable=predictor.models_writable)
        pod["volumes"] = merge_items(volumes, pod.get("volumes", ()), "name")
        if predictor.storage.copied:
            initializer = build_initializer(predictor.storage, config.storage_initializer)
            pod["initContainers"] = [initializer, *pod.get("initContainers", ())]
    security = {
        "seccompProfile": {"type": "RuntimeDefault"},
        "fsGroup": 1000,
        **pod.pop("securityContext", {}),
    }
    return {**pod, "securityContext": security, "containers": containers}


def _completed(container: Mapping[str, Any]) -> dict[str, Any]:
    completed = {
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **container,
    }
    if container["name"] in (CONTAINER_SERVER, CONTAINER_TRANSFORMER):
        completed.setdefault("readinessProbe", _port_probe(container))
    return completed


def _port_probe(container: Mapping[str, Any]) -> dict[str, Any]:
    """KServe's probe for a server that brings none: its port accepts connections."""
    return {
        "tcpSocket": {"port": first_port(container)["containerPort"]},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def _with_models(container: dict[str, Any], mounts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if container["name"] not in (CONTAINER_SERVER, CONTAINER_TRANSFORMER):
        return container
    return {**container, "volumeMounts": merge_items(mounts, container.get("volumeMounts", ()), "mountPath")}
