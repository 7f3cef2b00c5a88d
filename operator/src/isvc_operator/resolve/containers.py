"""Containers as Kubernetes has them: merged (docs/kserve.md), looked up, and completed with what they lack."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from isvc_operator.manifests import Container

Item = Mapping[str, Any]
# Lists whose items have a key. Other lists are replaced, except ``args``, which are appended.
_ITEM_KEYS = {"env": "name", "ports": "containerPort", "volumeMounts": "mountPath"}
_MERGED_MAPS = ("resources", "securityContext", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
# A probe, and a hook of a lifecycle, has exactly one of these.
_ACTIONS = frozenset({"exec", "grpc", "httpGet", "sleep", "tcpSocket"})


def merge_container(base: Container, overlay: Container) -> dict[str, Any]:
    """Merge the user's settings over the runtime's container; the name is always the runtime's."""
    merged = dict(base)
    for name, value in overlay.items():
        if name == "args":
            merged[name] = [*base.get(name, ()), *value]
        elif name in _ITEM_KEYS:
            merged[name] = merge_items(base.get(name, ()), value, _ITEM_KEYS[name])
        elif name in _MERGED_MAPS:
            merged[name] = merge_maps(_without_replaced_actions(base.get(name, {}), value), value)
        else:
            merged[name] = value
    return {**merged, "name": base["name"]}


def merge_containers(base: Sequence[Container], overlay: Sequence[Container]) -> list[Container]:
    """Return the containers of both; those with the same name are merged, those without a name are kept apart."""
    merged: dict[Any, Container] = {item.get("name", ("base", at)): item for at, item in enumerate(base)}
    for at, item in enumerate(overlay):
        name = item.get("name", at)
        merged[name] = merge_container(merged[name], item) if name in merged else item
    return list(merged.values())


def merge_items(base: Sequence[Item], overlay: Sequence[Item], key: str) -> list[Item]:
    """Return the items of both; an overlay's item replaces the base's with the same ``key``."""
    items = {identity(item, key): item for item in base}
    items.update({identity(item, key): item for item in overlay})
    return list(items.values())


def identity(item: Item, key: str) -> Any:
    """Return what distinguishes the item from others of its list: its ``key``; for a port the protocol as well."""
    value = item.get(key)
    return (value, item.get("protocol") or "TCP") if key == "containerPort" else value


def repeated_items(items: Iterable[Item], key: Callable[[Item], Any]) -> list[Item]:
    """Return the items of the first key that several of them have."""
    groups: defaultdict[Any, list[Item]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return next((group for group in groups.values() if len(group) > 1), [])


def merge_maps(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings recursively; the overlay's values win."""
    merged = dict(base)
    for name, value in overlay.items():
        known = merged.get(name)
        merged[name] = merge_maps(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return merged


def _without_replaced_actions(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` without the actions that ``overlay`` replaces by one of another type."""
    wanted = _ACTIONS & overlay.keys()
    kept = {name: value for name, value in base.items() if not wanted or name in wanted or name not in _ACTIONS}
    for name, value in kept.items():
        if isinstance(value, Mapping) and isinstance(inner := overlay.get(name), Mapping):
            kept[name] = _without_replaced_actions(value, inner)
    return kept


def with_tag(image: str, tag: str) -> str:
    """Replace the image's tag; an image pinned by digest is returned unchanged."""
    if "@" in image:
        return image
    repository, separator, name = image.rpartition("/")
    return f"{repository}{separator}{name.split(':')[0]}:{tag}"


def with_variable(container: Container, name: str, value: str) -> dict[str, Any]:
    """Return the container with the variable, unless the user has set it."""
    return {**container, "env": merge_items([{"name": name, "value": value}], container.get("env", ()), "name")}


def flag_value(container: Container, flag: str) -> str | None:
    """Return the value of the last ``--flag value`` or ``--flag=value``; None if the flag is missing."""
    arguments = [str(item) for item in (*container.get("command", ()), *container.get("args", ()))]
    values = [value for name, value in flags_in(arguments) if name == flag]
    return values[-1] if values else None


def flags_in(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each flag of a command line with its value, which is in the same argument or is the next one."""
    for argument, following in pairwise([*arguments, ""]):
        if argument.startswith("-"):
            name, equals, value = argument.partition("=")
            yield name, value if equals else following


def with_flags(container: Container, flags: Mapping[str, str]) -> dict[str, Any]:
    """Append the flags that are missing, each as two arguments, as KServe does."""
    missing = [item for flag, value in flags.items() if flag_value(container, flag) is None for item in (flag, value)]
    return {**container, "args": [*container.get("args", ()), *missing]}
