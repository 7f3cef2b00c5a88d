"""Merges what a user wrote about the server's container over what the runtime says (contract §3.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Container = Mapping[str, Any]

# Lists whose items have an identity; all other lists are replaced, except ``args``, which are appended.
_ITEM_KEYS = {"env": "name", "ports": "containerPort", "volumeMounts": "mountPath"}
_MERGED_MAPS = ("resources", "securityContext", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
# Of these a probe, or a hook of a lifecycle, has one and no more.
_ACTIONS = frozenset({"exec", "grpc", "httpGet", "sleep", "tcpSocket"})
_GRACE_PERIOD = 30  # seconds, Kubernetes' default


def merge_container(base: Container, overlay: Container) -> dict[str, Any]:
    """The runtime's container with the user's settings on top; the name is always the runtime's."""
    merged = dict(base)
    for name, value in overlay.items():
        if name == "args":
            merged[name] = [*base.get(name, ()), *value]
        elif name in _ITEM_KEYS:
            merged[name] = merge_items(base.get(name, ()), value, _ITEM_KEYS[name])
        elif name in _MERGED_MAPS:
            merged[name] = merge_maps(_making_room(base.get(name, {}), value), value)
        else:
            merged[name] = value
    return {**merged, "name": base["name"]}


def merge_containers(base: Sequence[Container], overlay: Sequence[Container]) -> list[Container]:
    """Containers of both; two of the same name are merged, in the base's place. One without a name stays by itself."""
    merged: dict[Any, Container] = {item.get("name", ("base", at)): item for at, item in enumerate(base)}
    for at, item in enumerate(overlay):
        name = item.get("name", at)
        merged[name] = merge_container(merged[name], item) if name in merged else item
    return list(merged.values())


def merge_items(
    base: Sequence[Mapping[str, Any]], overlay: Sequence[Mapping[str, Any]], key: str
) -> list[Mapping[str, Any]]:
    """Items of both; where both have one of the same ``key``, the overlay's, in the base's place."""
    items = {item.get(key): item for item in base}
    items.update({item.get(key): item for item in overlay})
    return list(items.values())


def merge_maps(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Both mappings in one, all the way down; where both have a value, the overlay's."""
    merged = dict(base)
    for name, value in overlay.items():
        known = merged.get(name)
        merged[name] = merge_maps(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return merged


def _making_room(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` without the actions that give way to one of another kind in ``overlay``."""
    wanted = _ACTIONS & overlay.keys()
    kept = {name: value for name, value in base.items() if not wanted or name in wanted or name not in _ACTIONS}
    for name, value in kept.items():
        if isinstance(value, Mapping) and isinstance(inner := overlay.get(name), Mapping):
            kept[name] = _making_room(value, inner)
    return kept


def ended_in_time(container: Container, pod: Mapping[str, Any]) -> Container:
    """The container with its sleep before the end as short as the pod's grace period: a longer one is refused."""
    hooks = container.get("lifecycle", {})
    asked = hooks.get("preStop", {}).get("sleep", {}).get("seconds", 0)
    grace = pod.get("terminationGracePeriodSeconds", _GRACE_PERIOD)
    if asked <= grace:
        return container
    others = {name: hook for name, hook in hooks.items() if name != "preStop"}
    return {**container, "lifecycle": {**others, **({"preStop": {"sleep": {"seconds": grace}}} if grace else {})}}


def with_tag(image: str, tag: str) -> str:
    """The image with another tag; one pinned by digest is left alone."""
    if "@" in image:
        return image
    repository, separator, name = image.rpartition("/")
    return f"{repository}{separator}{name.split(':')[0]}:{tag}"


def is_grpc(port: str) -> bool:
    """Whether a port of this name speaks gRPC, by KServe's convention (contract §4.4)."""
    return any(sign in port.lower() for sign in ("grpc", "h2c"))
