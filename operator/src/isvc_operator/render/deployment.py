"""A component's Deployment (docs/kserve.md): its pod, the storage-initializer, and models that are images.

A modelcar is a sidecar among the init containers, so its link exists before the server starts. The link leads to its
files by way of ``/proc``, which works for processes of the same user and group in a shared process namespace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from isvc_operator.api.names import (
    CACHE_MOUNT,
    CONTAINER_INITIALIZER,
    CONTAINER_MODELCAR,
    CONTAINER_MODELCAR_CHECK,
    CONTAINER_SERVER,
    CONTAINER_TRANSFORMER,
    PACKAGES_MOUNT,
    PVC_MOUNT_ROOT,
    VOLUME_CACHE,
    VOLUME_MODELS,
)
from isvc_operator.config import OperatorConfig, StorageInitializerConfig
from isvc_operator.manifests import Container, Volume
from isvc_operator.render.metadata import build_component_child, component_labels, selector
from isvc_operator.resolve.component import Component
from isvc_operator.resolve.containers import flag_value, merge_container, merge_items
from isvc_operator.resolve.front import TLS_DIR
from isvc_operator.resolve.ports import first_port, http_port
from isvc_operator.resolve.service import Resolved
from isvc_operator.resolve.storage.plan import ModelImage, StoragePlan
from isvc_operator.resolve.transformer import HEALTH_CHECK

_CLAIM_VOLUME = "kserve-pvc-source"
_PACKAGE_CACHE = "PACKAGE_CACHE"
_INITIALIZER_USER = 1000


def build_initializer(plan: StoragePlan, config: StorageInitializerConfig) -> dict[str, Any]:
    """Return the init container; its arguments are KServe's pairs of source and destination."""
    copied = {source.claim for source in plan.copied}
    claims = [
        {"name": name, "mountPath": f"{PVC_MOUNT_ROOT}/{claim}", "readOnly": True}
        for claim, name in _claim_volumes(plan).items()
        if claim in copied
    ]
    env = [
        {"name": "STORAGE_LAYOUT", "value": plan.layout},
        {"name": "STORAGE_PVC_ROOT", "value": PVC_MOUNT_ROOT},
        *([{"name": _PACKAGE_CACHE, "value": f"{CACHE_MOUNT}/{plan.packages}"}] if plan.packages else ()),
    ]
    ours = {
        "name": CONTAINER_INITIALIZER,
        "image": config.image,
        "imagePullPolicy": "IfNotPresent",
        "args": [text for source in plan.copied for text in (source.uri, source.destination)],
        "env": merge_items(env, plan.preset.env, "name"),
        "resources": {
            "requests": {"cpu": config.cpu_request, "memory": config.memory_request},
            "limits": {"cpu": config.cpu_limit, "memory": config.memory_limit},
        },
        "securityContext": {
            "runAsUser": _INITIALIZER_USER,
            "runAsNonRoot": True,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": VOLUME_MODELS, "mountPath": plan.folder},
            *claims,
            *plan.preset.mounts,
        ],
    }
    changed = merge_container(ours, plan.container)
    return merge_container(changed, {"resources": plan.resources}) if plan.resources else changed


def build_volumes(plan: StoragePlan) -> list[Mapping[str, Any]]:
    """Return the volumes of the model's copy, of the claims, and of the init container."""
    volumes: list[Mapping[str, Any]] = [{"name": VOLUME_MODELS, "emptyDir": {}}] if plan.copied else []
    mounted = {source.claim for source in plan.mounted}
    for claim, name in _claim_volumes(plan).items():
        read_only = not (plan.writable and claim in mounted)
        volumes.append({"name": name, "persistentVolumeClaim": {"claimName": claim, "readOnly": read_only}})
    return [*volumes, *plan.preset.volumes]


def server_mounts(plan: StoragePlan) -> list[dict[str, Any]]:
    """Return the server's mounts of the model."""
    volumes = _claim_volumes(plan)
    mounts: list[dict[str, Any]] = [{"name": VOLUME_MODELS, "mountPath": plan.folder}] if plan.copied else []
    for source in plan.mounted:
        sub_path = {"subPath": source.path} if source.path else {}
        mounts.append({"name": volumes[source.claim or ""], "mountPath": source.destination, **sub_path})
    return [{**mount, "readOnly": not plan.writable} for mount in mounts]


def _with_packages(server: Container, plan: StoragePlan) -> dict[str, Any]:
    """Return the server with the folder for what archives require, which the init container creates."""
    variable = {"name": _PACKAGE_CACHE, "value": PACKAGES_MOUNT}
    mount = {"name": VOLUME_CACHE, "mountPath": PACKAGES_MOUNT, "subPath": plan.packages}
    return {
        **server,
        "env": merge_items([variable], server.get("env", ()), "name"),
        "volumeMounts": merge_items([mount], server["volumeMounts"], "mountPath"),
    }


def _claim_volumes(plan: StoragePlan) -> dict[str, str]:
    """Return the name of each claim's volume; the first one has KServe's name."""
    claims = dict.fromkeys(source.claim for source in (*plan.copied, *plan.mounted) if source.claim)
    names = (_CLAIM_VOLUME, *(f"{_CLAIM_VOLUME}-{number}" for number in range(2, len(claims) + 1)))
    return dict(zip(claims, names, strict=False))


_IMAGE_VOLUME = "kserve-oci-model"
_LINK_VOLUME = "kserve-modelcar"
# Kubernetes turns each $$ into $.
_LINK = 'ln -sfn "/proc/$$$$/root/models" "$1" && exec sleep infinity'
_CHECK = (
    '[ -d /models ] || { echo "the image has no folder /models; build it with the model there" >&2; exit 1; }; '
    'for second in 1 2 3 4 5 6 7 8 9 10; do [ -d "$1" ] && exit 0; sleep 1; done; '
    'echo "$1 does not lead to the files of the image; on this cluster, use an image volume: oci+native://" >&2; exit 1'
)


def user_of(server: Container, pod: Mapping[str, Any], config: StorageInitializerConfig) -> dict[str, int]:
    """Return the user and the group that a server and its modelcars share, as fields of a security context.

    The user is the configuration's, as with KServe, if neither the server nor the pod names one.
    """
    context = {**pod.get("securityContext", {}), **server.get("securityContext", {})}
    uid = int(context.get("runAsUser", config.uid_modelcar))
    return {"runAsUser": uid, "runAsGroup": int(context.get("runAsGroup", uid))}


def with_user(container: Container, user: Mapping[str, int]) -> dict[str, Any]:
    """Return the container as that user, unless it names one of its own."""
    return {**container, "securityContext": {**user, **container.get("securityContext", {})}}


def build_modelcars(
    plan: StoragePlan, user: Mapping[str, int], config: StorageInitializerConfig
) -> Iterator[dict[str, Any]]:
    """Yield the sidecar of each modelcar, and the init container that checks the image and waits for the link."""
    for number, image in enumerate(item for item in plan.images if item.modelcar):
        suffix = f"-{number}" if number else ""
        common = {**_modelcar(image, plan, user), "resources": _modelcar_resources(config)}
        for name, script, more in (
            (CONTAINER_MODELCAR + suffix, _LINK, {"restartPolicy": "Always"}),
            (CONTAINER_MODELCAR_CHECK + suffix, _CHECK, {}),
        ):
            yield {"name": name, **common, "command": ["sh", "-c", script, name, image.destination], **more}


def build_image_volumes(plan: StoragePlan) -> list[Volume]:
    """Return the volumes of the images, and those of the links to them."""
    names = [name for name in _link_volumes(plan).values() if not (plan.copied and name == VOLUME_MODELS)]
    links: list[Volume] = [{"name": name, "emptyDir": {}} for name in names]
    return links + [
        {"name": name, "image": {"reference": image.reference, "pullPolicy": _pull_policy(image)}}
        for name, image in _native(plan)
    ]


def image_mounts(plan: StoragePlan) -> list[dict[str, Any]]:
    """Return the server's mounts of the images and of the links. The latter are writable, to hold other mounts."""
    shared = {plan.folder} if plan.copied else set()
    links = [
        {"name": name, "mountPath": folder} for folder, name in _link_volumes(plan).items() if folder not in shared
    ]
    return links + [
        {"name": name, "mountPath": image.destination, "subPath": "models", "readOnly": True}
        for name, image in _native(plan)
    ]


def _modelcar_resources(config: StorageInitializerConfig) -> dict[str, Any]:
    """Return the resources, without a limit of the CPU: KServe's, 10m, leaves a start 1 ms of each 100 ms."""
    return {
        "requests": {"cpu": config.cpu_modelcar, "memory": config.memory_modelcar},
        "limits": {"memory": config.memory_modelcar},
    }


def _modelcar(image: ModelImage, plan: StoragePlan, user: Mapping[str, int]) -> dict[str, Any]:
    return {
        "image": image.reference,
        "imagePullPolicy": _pull_policy(image),
        "securityContext": {
            **user,
            "runAsNonRoot": user["runAsUser"] != 0,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": _link_volumes(plan)[image.folder], "mountPath": image.folder}],
    }


def _pull_policy(image: ModelImage) -> str:
    """Return Kubernetes' default: an image without a tag, or with `latest`, may be another one the next time."""
    name, _, digest = image.reference.rpartition("/")[2].partition("@")
    return "Always" if not digest and name.partition(":")[2] in ("", "latest") else "IfNotPresent"


def _native(plan: StoragePlan) -> list[tuple[str, ModelImage]]:
    """Return the images that are volumes, each with the volume's name."""
    images = [image for image in plan.images if not image.modelcar]
    return [(f"{_IMAGE_VOLUME}-{number}" if number else _IMAGE_VOLUME, image) for number, image in enumerate(images)]


def _link_volumes(plan: StoragePlan) -> dict[str, str]:
    """Return the volume of each folder with links; that of the copies too, if they are in the same folder."""
    folders = dict.fromkeys(image.folder for image in plan.images if image.modelcar)
    names: dict[str, str] = {}
    for folder in folders:
        is_shared = folder == plan.folder if plan.copied else not names
        names[folder] = VOLUME_MODELS if is_shared else f"{_LINK_VOLUME}-{len(names)}"
    return names


_SERVING = (CONTAINER_SERVER, CONTAINER_TRANSFORMER)
# Seconds: longer than the time after which our SDK reports that the predictor does not respond.
_PREDICTOR_TIMEOUT = 6
_STRATEGY = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}


def build_deployment(resolved: Resolved, component: Component, config: OperatorConfig) -> dict[str, Any]:
    """Return the Deployment; ``replicas`` is rendered only if the user has set it."""
    service = resolved.service.metadata
    spec: dict[str, Any] = {
        "selector": {"matchLabels": selector(component.name)},
        "strategy": component.strategy or _STRATEGY,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "template": {
            "metadata": {"labels": component_labels(service, component), "annotations": dict(component.annotations)},
            "spec": _pod_spec(component, config),
        },
    }
    if component.scaling.replicas is not None:
        spec["replicas"] = component.scaling.replicas
    return build_component_child(service, component, "Deployment", spec)


def _pod_spec(component: Component, config: OperatorConfig) -> dict[str, Any]:
    pod = dict(component.pod)
    containers = [_completed(item) for item in (component.server, *pod.pop("containers", ()))]
    if plan := component.storage:
        mounts = [*server_mounts(plan), *(image_mounts(plan) if plan.images else ())]
        for item in containers:
            if item.get("name") in _SERVING:
                item["volumeMounts"] = merge_items(mounts, item.get("volumeMounts", ()), "mountPath")
        if plan.packages:
            containers[0] = _with_packages(containers[0], plan)
        volumes = [*build_volumes(plan), *(build_image_volumes(plan) if plan.images else ())]
        pod["volumes"] = merge_items(volumes, pod.get("volumes", ()), "name")
        own = pod.get("initContainers", ())
        if plan.copied and all(item.get("name") != CONTAINER_INITIALIZER for item in own):
            # Otherwise the user's container of that name replaces ours, as with KServe.
            pod["initContainers"] = own = [build_initializer(plan, config.storage_initializer), *own]
        if any(image.modelcar for image in plan.images):  # containers of the pod have to share their processes
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
        action: dict[str, dict[str, Any]] = {"httpGet": {"path": "/v2/health/ready", "port": http_port(container)}}
        if any(item.get("name") == TLS_DIR for item in container.get("env", ())):
            action["httpGet"]["scheme"] = "HTTPS"
        return {**action, "timeoutSeconds": _PREDICTOR_TIMEOUT, **period}
    return {"tcpSocket": {"port": first_port(container)["containerPort"]}, "timeoutSeconds": 1, **period}
