"""The init container that brings the model into the pod, and the volumes it needs."""

from __future__ import annotations

from typing import Any

from isvc_operator.api.names import (
    CONTAINER_INITIALIZER,
    MODELS_MOUNT,
    PVC_MOUNT_ROOT,
    VOLUME_MODELS,
)
from isvc_operator.config import StorageInitializerConfig
from isvc_operator.resolve.storage import StoragePlan

_CLAIM_VOLUME = "kserve-pvc-source"
_USER = 1000


def build_initializer(plan: StoragePlan, config: StorageInitializerConfig) -> dict[str, Any]:
    """The init container; its arguments are KServe's pairs of source and destination."""
    mounts: list[dict[str, Any]] = [{"name": VOLUME_MODELS, "mountPath": MODELS_MOUNT}]
    if plan.claim:
        mounts.append({"name": _CLAIM_VOLUME, "mountPath": f"{PVC_MOUNT_ROOT}/{plan.claim}", "readOnly": True})
    return {
        "name": CONTAINER_INITIALIZER,
        "image": config.image,
        "imagePullPolicy": "IfNotPresent",
        "args": [plan.source, plan.destination],
        "env": [
            {"name": "STORAGE_LAYOUT", "value": plan.layout},
            {"name": "STORAGE_PVC_ROOT", "value": PVC_MOUNT_ROOT},
        ],
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
        "volumeMounts": mounts,
    }


def build_volumes(plan: StoragePlan) -> list[dict[str, Any]]:
    """The pod's own copy of the model, and the claim it is copied from."""
    volumes: list[dict[str, Any]] = [{"name": VOLUME_MODELS, "emptyDir": {}}]
    if plan.claim:
        claim = {"claimName": plan.claim, "readOnly": True}
        volumes.append({"name": _CLAIM_VOLUME, "persistentVolumeClaim": claim})
    return volumes


def models_mount(*, writable: bool) -> dict[str, Any]:
    """The mount by which the server reads the model."""
    return {"name": VOLUME_MODELS, "mountPath": MODELS_MOUNT, "readOnly": not writable}
