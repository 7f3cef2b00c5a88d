"""With how many pods a Deployment starts whose number an autoscaler sets from then on.

The API server's default is one pod. An autoscaler raises that to its minimum only at its next look, up to 15 seconds
later, and to what the load needs later still. A component that replaces another one starts with as many pods as that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from isvc_operator.api.kinds import AUTOSCALERS
from isvc_operator.api.names import LABEL_COMPONENT
from isvc_operator.manifests import Manifest, labels_of, name_of

_BOUNDS = (("minReplicas", "maxReplicas"), ("minReplicaCount", "maxReplicaCount"))


def starting_size(manifest: Manifest, rendered: Sequence[Manifest], owned: Iterable[Manifest]) -> int | None:
    """Return the number of pods of a Deployment that is created; None for what is rendered, or else one pod.

    ``owned`` are the service's own children as observed.
    """
    if manifest["kind"] != "Deployment":
        return None
    scaler = next((child for child in rendered if _scales(child, manifest)), None)
    if scaler is None:
        return None
    minimum, maximum = _bounds(scaler["spec"])
    replaced = (child["spec"].get("replicas", 1) for child in owned if _is_same_component(child, manifest))
    size = min(max(1, minimum, *replaced), maximum)
    return size if size > 1 else None


def _scales(child: Manifest, deployment: Manifest) -> bool:
    return child["kind"] in AUTOSCALERS and name_of(child) == name_of(deployment)


def _bounds(spec: Any) -> tuple[int, int]:
    return next((spec[least], spec[most]) for least, most in _BOUNDS if least in spec)


def _is_same_component(child: Manifest, deployment: Manifest) -> bool:
    component = labels_of(deployment).get(LABEL_COMPONENT)
    return child["kind"] == "Deployment" and labels_of(child).get(LABEL_COMPONENT) == component
