"""Models that are images: modelcars, which are containers beside the server, and image volumes (docs/storage.md).

A modelcar is a sidecar among the init containers, so its link exists before the server starts. The link leads to its
files by way of ``/proc``, which works for processes of the same user and group in a shared process namespace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from isvc_operator.api.names import CONTAINER_MODELCAR, CONTAINER_MODELCAR_CHECK, VOLUME_MODELS
from isvc_operator.config import StorageInitializerConfig
from isvc_operator.manifests import Container, Volume
from isvc_operator.resolve.storage.images import ModelImage
from isvc_operator.resolve.storage.plan import StoragePlan

_IMAGE_VOLUME = "kserve-oci-model"
_LINK_VOLUME = "kserve-modelcar"
# Kubernetes turns each $$ into $.
_LINK = 'ln -sfn "/proc/$$$$/root/models" "$1" && exec sleep infinity'
_CHECK = (
    '[ -d /models ] || { echo "the image has no folder /models; build it with the model there" >&2; exit 1; }; '
    'for second in 1 2 3 4 5 6 7 8 9 10; do [ -d "$1" ] && exit 0; sleep 1; done; '
    'echo "$1 does not lead to the files of the image; on this cluster, use an image volume: oci+native://" >&2; exit 1'
)


@dataclass(frozen=True)
class PodUser:
    """The user and the group that a server and its modelcars share."""

    uid: int
    gid: int

    @property
    def as_context(self) -> dict[str, int]:
        """The fields of a security context."""
        return {"runAsUser": self.uid, "runAsGroup": self.gid}


def user_of(server: Container, pod: Mapping[str, Any], config: StorageInitializerConfig) -> PodUser:
    """Return the server's user; the configuration's, as with KServe, if neither it nor the pod names one."""
    context = {**pod.get("securityContext", {}), **server.get("securityContext", {})}
    uid = int(context.get("runAsUser", config.uid_modelcar))
    return PodUser(uid, int(context.get("runAsGroup", uid)))


def has_modelcars(plan: StoragePlan) -> bool:
    """Whether the containers of the pod have to share their processes."""
    return any(image.modelcar for image in plan.images)


def with_user(container: Container, user: PodUser) -> dict[str, Any]:
    """Return the container as that user, unless it names one of its own."""
    return {**container, "securityContext": {**user.as_context, **container.get("securityContext", {})}}


def build_modelcars(plan: StoragePlan, user: PodUser, config: StorageInitializerConfig) -> Iterator[dict[str, Any]]:
    """Yield the sidecar of each modelcar, and the init container that checks the image and waits for the link."""
    for number, image in enumerate(item for item in plan.images if item.modelcar):
        suffix = f"-{number}" if number else ""
        common = {**_container(image, plan, user), "resources": _resources(config)}
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
        {"name": name, "image": {"reference": image.reference, "pullPolicy": "IfNotPresent"}}
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


def _resources(config: StorageInitializerConfig) -> dict[str, Any]:
    """Return the resources, without a limit of the CPU: KServe's, 10m, leaves a start 1 ms of each 100 ms."""
    return {
        "requests": {"cpu": config.cpu_modelcar, "memory": config.memory_modelcar},
        "limits": {"memory": config.memory_modelcar},
    }


def _container(image: ModelImage, plan: StoragePlan, user: PodUser) -> dict[str, Any]:
    return {
        "image": image.reference,
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {
            **user.as_context,
            "runAsNonRoot": user.uid != 0,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": _link_volumes(plan)[image.folder], "mountPath": image.folder}],
    }


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
