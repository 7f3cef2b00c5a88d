"""What a component's storage consists of: copies in the pod, mounts, models that are images. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import dirname
from typing import Any

from isvc_operator.api.names import MODELS_MOUNT
from isvc_operator.api.storage_container import ClusterStorageContainer
from isvc_operator.config import OciMode, StorageInitializerConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import NamedItem, Volume
from isvc_operator.resolve.containers import merge_items
from isvc_operator.resolve.requested import StorageRequests
from isvc_operator.resolve.storage.sources import IMAGE_SCHEME, Objects, StorageSource


@dataclass(frozen=True)
class PodPreset:
    """What a container gets beside its own: its ``env`` and ``mounts``, and the ``volumes`` of its pod."""

    env: tuple[NamedItem, ...] = ()
    volumes: tuple[Volume, ...] = ()
    mounts: tuple[NamedItem, ...] = ()

    def __add__(self, other: PodPreset) -> PodPreset:
        """Combine both; of two items with the same name or mount path, the other's wins."""
        return PodPreset(
            tuple(merge_items(self.env, other.env, "name")),
            tuple(merge_items(self.volumes, other.volumes, "name")),
            tuple(merge_items(self.mounts, other.mounts, "mountPath")),
        )

    def value(self, name: str) -> str:
        """Return the value of a variable; empty if it is not set, or taken from a secret."""
        return next((item.get("value", "") for item in self.env if item["name"] == name), "")


def variable(name: str, value: str) -> NamedItem:
    """Return an environment variable with a value."""
    return {"name": name, "value": value}


def secret_variable(name: str, secret: str, key: str) -> NamedItem:
    """Return an environment variable whose value the kubelet takes from a secret."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def read_only(volume: Volume, path: str) -> PodPreset:
    """Return a volume and its read-only mount."""
    return PodPreset(volumes=(volume,), mounts=({"name": volume["name"], "mountPath": path, "readOnly": True},))


_IMAGE_NAME = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
# As the kubelet reads it; what it does not accept would make a pod that never starts.
_REFERENCE = re.compile(
    rf"(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?/)?{_IMAGE_NAME}(?:/{_IMAGE_NAME})*(?::\w[\w.-]{{0,127}})?(?:@[\w+.-]+:[0-9a-fA-F]{{32,}})?",
    re.ASCII,
)


@dataclass(frozen=True)
class ModelImage:
    """An image whose folder ``/models`` is the model, and the path at which the server reads it.

    A modelcar is a container beside the server, into whose files a link leads; else the image is a volume.
    """

    reference: str
    destination: str
    modelcar: bool

    @property
    def folder(self) -> str:
        """The folder in which a modelcar puts its link."""
        return dirname(self.destination)


def model_images(sources: Sequence[StorageSource], config: StorageInitializerConfig) -> tuple[ModelImage, ...]:
    """Return the images among the sources, none if they are turned off; raises InvalidSpec for one without a use."""
    if not config.serves_images:
        return ()
    images = tuple(_image(source, config) for source in sources if source.is_image)
    for image in images:
        if image.modelcar and image.folder == "/":
            raise InvalidSpec(f"the mountPath {image.destination} is at the root; put the image's model below a folder")
    return images


def _image(source: StorageSource, config: StorageInitializerConfig) -> ModelImage:
    mode, reference = _mode(source, config), source.uri.partition("://")[2]
    if not _REFERENCE.fullmatch(reference):
        raise InvalidSpec(f"storageUri {source.shown} names no image; write oci://REGISTRY/IMAGE:TAG")
    return ModelImage(reference, source.destination, modelcar=mode is OciMode.MODELCAR)


def _mode(source: StorageSource, config: StorageInitializerConfig) -> OciMode:
    text = source.scheme.removeprefix(f"{IMAGE_SCHEME}+") if source.scheme != IMAGE_SCHEME else config.image_mode
    if text in (OciMode.MODELCAR, OciMode.NATIVE):
        return OciMode(text)
    raise InvalidSpec(
        f"storageUri {source.shown} asks for the mode {text}, which is not supported; write oci+modelcar:// for a "
        "container beside the server, or oci+native:// for an image volume (ociModelMode has the default)"
    )


@dataclass(frozen=True)
class StorageContext:
    """What the plans of a service depend on: its requests, the cluster's storage containers, and the objects read."""

    requests: StorageRequests
    containers: tuple[ClusterStorageContainer, ...] = ()
    objects: Objects = field(default_factory=dict)


@dataclass(frozen=True)
class StoragePlan:
    """What the pod's volumes contain and how it gets there.

    The storage-initializer copies ``copied`` into a volume of the pod that is mounted at ``folder``; ``mounted`` are
    claims that the server reads directly, and ``images`` are models that the pod uses as they are. A copy has to pass
    the check ``layout``, which depends on the server. ``preset`` is for the storage-initializer; ``container`` and
    ``resources`` are merged over its own. ``writable``: the server may write to the folder of its model. ``ignored``
    names annotations and fields of the ClusterStorageContainer that have no effect.
    """

    copied: tuple[StorageSource, ...]
    mounted: tuple[StorageSource, ...] = ()
    images: tuple[ModelImage, ...] = ()
    folder: str = MODELS_MOUNT
    layout: str = "none"
    preset: PodPreset = field(default_factory=PodPreset)
    container: Mapping[str, Any] = field(default_factory=dict)
    resources: Mapping[str, Any] = field(default_factory=dict)
    writable: bool = False
    ignored: tuple[str, ...] = ()
