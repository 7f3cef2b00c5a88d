"""The plan of a component's storage: what is copied into the pod, what is mounted, and with which credentials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from isvc_operator.api.names import MODELS_MOUNT
from isvc_operator.api.storage_container import ClusterStorageContainer
from isvc_operator.resolve.storage.images import ModelImage
from isvc_operator.resolve.storage.objects import Objects
from isvc_operator.resolve.storage.provision import Provision
from isvc_operator.resolve.storage.requests import StorageRequests
from isvc_operator.resolve.storage.sources import StorageSource


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
    the check ``layout``, which depends on the server. ``provision`` is for the storage-initializer; ``container`` and
    ``resources`` are merged over its own. ``ignored`` names annotations and fields of the ClusterStorageContainer that
    have no effect.
    """

    copied: tuple[StorageSource, ...]
    mounted: tuple[StorageSource, ...] = ()
    images: tuple[ModelImage, ...] = ()
    folder: str = MODELS_MOUNT
    layout: str = "none"
    provision: Provision = field(default_factory=Provision)
    container: Mapping[str, Any] = field(default_factory=dict)
    resources: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    @property
    def claims(self) -> tuple[str, ...]:
        """Each claim once, in the order of the sources."""
        return tuple(dict.fromkeys(source.claim for source in (*self.copied, *self.mounted) if source.claim))
