"""Where the model comes from: the storage-initializer's arguments and the volume it needs."""

from __future__ import annotations

from dataclasses import dataclass

from isvc_operator.api.components import ModelSpec
from isvc_operator.api.names import MODELS_MOUNT
from isvc_operator.errors import InvalidSpec

# The layout that a server reads, by its type; others read whatever there is. ``auto`` checks a folder that looks like
# TorchServe's and leaves any other one, such as a bare model.onnx, alone.
_LAYOUTS = {"torchserve": "torchserve", "mar": "auto"}


@dataclass(frozen=True)
class StoragePlan:
    """One source to be copied into the pod.

    ``claim`` is the PersistentVolumeClaim to mount, for ``pvc://`` sources. ``layout`` is the check that the copy
    has to pass: that of the server which will read it.
    """

    source: str
    destination: str
    claim: str | None
    layout: str


def plan_storage(model: ModelSpec, server_type: str | None) -> StoragePlan | None:
    """The plan for a model; None where it names no storage, as an image may hold its own."""
    if model.storage is not None:
        raise InvalidSpec("spec.predictor.model.storage is not supported by this version; use storageUri")
    if not model.storage_uri:
        return None
    layout = _LAYOUTS.get(server_type or "", "none")
    return StoragePlan(model.storage_uri, MODELS_MOUNT, _claim_of(model.storage_uri), layout)


def _claim_of(uri: str) -> str | None:
    """As the storage-initializer reads it: a scheme in any case, and a path that is taken literally."""
    scheme, _, rest = uri.partition("://")
    if scheme.lower() != "pvc":
        return None
    claim = rest.partition("/")[0]
    if not claim:
        raise InvalidSpec(f"storageUri {uri!r} names no claim; write pvc://CLAIM or pvc://CLAIM/PATH")
    return claim
