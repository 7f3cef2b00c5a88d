"""The init container that downloads the model into the pod, and the volumes and mounts of the pod's containers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isvc_operator.api.names import CONTAINER_INITIALIZER, PVC_MOUNT_ROOT, VOLUME_MODELS
from isvc_operator.config import StorageInitializerConfig
from isvc_operator.resolve.containers import merge_container, merge_items, merge_maps
from isvc_operator.resolve.storage.plan import StoragePlan

_CLAIM_VOLUME = "kserve-pvc-source"
_USER = 1000


def build_initializer(plan: StoragePlan, config: StorageInitializerConfig) -> dict[str, Any]:
    """Return the init container; its arguments are KServe's pairs of source and destination."""
    env = [
        {"name": "STORAGE_LAYOUT", "value": plan.layout},
        {"name": "STORAGE_PVC_ROOT", "value": PVC_MOUNT_ROOT},
    ]
    ours = {
        "name": CONTAINER_INITIALIZER,
        "image": config.image,
        "imagePullPolicy": "IfNotPresent",
        "args": [text for source in plan.copied for text in (source.uri, source.destination)],
        "env": merge_items(env, plan.provision.env, "name"),
        "resources": {
            "requests": {"cpu": config.cpu_request, "memory": config.memory_request},
            "limits": {"cpu": config.cpu_limit, "memory": config.memory_limit},
        },
        "securityContext": {
            "runAsUser": _USER,
            "runAsNonRoot": True,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": VOLUME_MODELS, "mountPath": plan.folder},
            *_claim_mounts(plan),
            *plan.provision.mounts,
        ],
    }
    changed = merge_container(ours, plan.container)
    return {**changed, "resources": merge_maps(changed["resources"], plan.resources)}


def build_volumes(plan: StoragePlan, *, writable: bool) -> list[Mapping[str, Any]]:
    """Return the volumes of the model's copy, of the claims, and of the init container."""
    volumes: list[Mapping[str, Any]] = [{"name": VOLUME_MODELS, "emptyDir": {}}] if plan.copied else []
    mounted = {source.claim for source in plan.mounted}
    for claim, name in _claim_volumes(plan).items():
        read_only = not (writable and claim in mounted)
        volumes.append({"name": name, "persistentVolumeClaim": {"claimName": claim, "readOnly": read_only}})
    return [*volumes, *plan.provision.volumes]


def server_mounts(plan: StoragePlan, *, writable: bool) -> list[dict[str, Any]]:
    """Return the server's mounts of the model."""
    volumes = _claim_volumes(plan)
    mounts: list[dict[str, Any]] = [{"name": VOLUME_MODELS, "mountPath": plan.folder}] if plan.copied else []
    for source in plan.mounted:
        sub_path = {"subPath": source.path} if source.path else {}
        mounts.append({"name": volumes[source.claim or ""], "mountPath": source.destination, **sub_path})
    return [{**mount, "readOnly": not writable} for mount in mounts]


def _claim_mounts(plan: StoragePlan) -> list[dict[str, Any]]:
    """Return the init container's mount of each claim that it copies from."""
    copied = {source.claim for source in plan.copied}
    return [
        {"name": name, "mountPath": f"{PVC_MOUNT_ROOT}/{claim}", "readOnly": True}
        for claim, name in _claim_volumes(plan).items()
        if claim in copied
    ]


def _claim_volumes(plan: StoragePlan) -> dict[str, str]:
    """Return the name of each claim's volume; the first one has KServe's name."""
    names = (_CLAIM_VOLUME, *(f"{_CLAIM_VOLUME}-{number}" for number in range(2, len(plan.claims) + 1)))
    return dict(zip(plan.claims, names, strict=False))
