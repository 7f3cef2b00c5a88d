"""A component's Deployment (docs/kserve.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isvc_operator.api.names import CONTAINER_INITIALIZER, CONTAINER_SERVER, CONTAINER_TRANSFORMER
from isvc_operator.config import OperatorConfig
from isvc_operator.manifests import Container
from isvc_operator.render.metadata import child_metadata, component_labels, selector
from isvc_operator.render.model_images import (
    build_image_volumes,
    build_modelcars,
    has_modelcars,
    image_mounts,
    user_of,
    with_user,
)
from isvc_operator.render.storage_initializer import build_initializer, build_volumes, server_mounts
from isvc_operator.resolve.component import Component, first_port, http_port
from isvc_operator.resolve.containers import merge_items
from isvc_operator.resolve.flags import flag_value
from isvc_operator.resolve.service import Resolved
from isvc_operator.resolve.tls import probe_scheme
from isvc_operator.resolve.transformer import HEALTH_CHECK

_SERVING = (CONTAINER_SERVER, CONTAINER_TRANSFORMER)
# Seconds: longer than the time after which our SDK reports that the predictor does not respond.
_PREDICTOR_TIMEOUT = 6
_STRATEGY = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}


def build_deployment(resolved: Resolved, component: Component, config: OperatorConfig) -> dict[str, Any]:
    """Return the Deployment; ``replicas`` is rendered only if the user has set it."""
    service = resolved.service.metadata
    labels = component_labels(service, component)
    spec: dict[str, Any] = {
        "selector": {"matchLabels": selector(component.name)},
        "strategy": component.strategy or _STRATEGY,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "template": {
            "metadata": {"labels": labels, "annotations": dict(component.annotations)},
            "spec": _pod_spec(component, config),
        },
    }
    if component.scaling.replicas is not None:
        spec["replicas"] = component.scaling.replicas
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": child_metadata(service, component.name, labels=labels, annotations=component.annotations),
        "spec": spec,
    }


def _pod_spec(component: Component, config: OperatorConfig) -> dict[str, Any]:
    pod = dict(component.pod)
    containers = [_completed(item) for item in (component.server, *pod.pop("containers", ()))]
    if plan := component.storage:
        mounts = [*server_mounts(plan, writable=component.models_writable), *image_mounts(plan)]
        containers = [_with_models(item, mounts) for item in containers]
        volumes = [*build_volumes(plan, writable=component.models_writable), *build_image_volumes(plan)]
        pod["volumes"] = merge_items(volumes, pod.get("volumes", ()), "name")
        own = pod.get("initContainers", ())
        if plan.copied and all(item.get("name") != CONTAINER_INITIALIZER for item in own):
            # Otherwise the user's container of that name replaces ours, as with KServe.
            pod["initContainers"] = own = [build_initializer(plan, config.storage_initializer), *own]
        if has_modelcars(plan):
            user = user_of(containers[0], pod, config.storage_initializer)
            containers = [with_user(item, user) if item.get("name") in _SERVING else item for item in containers]
            pod["initContainers"] = [*build_modelcars(plan, user, config.storage_initializer), *own]
            pod["shareProcessNamespace"] = True
    security = {
        "seccompProfile": {"type": "RuntimeDefault"},
        "fsGroup": 1000,
        **pod.pop("securityContext", {}),
    }
    return {**pod, "securityContext": security, "containers": containers}


def _completed(container: Container) -> dict[str, Any]:
    completed = {
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **container,
    }
    if container.get("name") in _SERVING:
        completed.setdefault("readinessProbe", _probe(container))
    return completed


def _probe(container: Container) -> dict[str, Any]:
    """Return KServe's default probe: the port accepts connections.

    A transformer with the flag for the predictor's health check includes it in its own readiness.
    """
    period = {"periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    if flag_value(container, HEALTH_CHECK) is not None:
        action = {"httpGet": {"path": "/v2/health/ready", "port": http_port(container), **probe_scheme(container)}}
        return {**action, "timeoutSeconds": _PREDICTOR_TIMEOUT, **period}
    return {"tcpSocket": {"port": first_port(container)["containerPort"]}, "timeoutSeconds": 1, **period}


def _with_models(container: dict[str, Any], mounts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if container.get("name") not in _SERVING:
        return container
    return {**container, "volumeMounts": merge_items(mounts, container.get("volumeMounts", ()), "mountPath")}
