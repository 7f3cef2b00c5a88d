"""Containers as Kubernetes has them: merged (docs/kserve.md), looked up, and completed with what they lack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from isvc_operator.api.core_shapes import quantity
from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import Container

Item = Mapping[str, Any]
# Lists whose items have a key. Other lists are replaced, except ``args``, which are appended.
_ITEM_KEYS = {"env": "name", "ports": "containerPort", "volumeMounts": "mountPath"}
_MERGED_MAPS = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
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
        elif name == "resources":
            merged[name] = merge_resources(base.get(name, {}), value)
        elif name == "securityContext":
            merged[name] = _merge_security(base.get(name, {}), value)
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


def merge_maps(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings recursively; the overlay's values win."""
    merged = dict(base)
    for name, value in overlay.items():
        known = merged.get(name)
        merged[name] = merge_maps(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return merged


def merge_resources(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Merge resources key by key. A request or a limit of ``base`` that contradicts the overlay's is left out.

    It was meant for another amount, as a default is. Where Kubernetes needs a limit, it is the overlay's request.
    """
    merged = merge_maps(base, overlay)
    for name in contradictions(merged):
        requested, limited = (name in (overlay.get(kind) or {}) for kind in ("requests", "limits"))
        if limited and not requested:
            merged["requests"] = _without(merged["requests"], name)
        elif requested and not limited and _is_overcommitted(name):
            merged["limits"] = _without(merged["limits"], name)
        elif requested and not limited:
            merged["limits"] = {**(merged.get("limits") or {}), name: merged["requests"][name]}
    return {kind: amounts for kind, amounts in merged.items() if amounts or not base.get(kind)}


def _without(amounts: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: amount for key, amount in amounts.items() if key != name}


def contradictions(resources: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with requests and limits, by the resource, for which Kubernetes refuses a container."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    found = {}
    for name, requested in requests.items():
        least, most = quantity(requested), quantity(limits.get(name))
        if _is_overcommitted(name):
            if least is not None and most is not None and least > most:
                found[name] = f"requests.{name} {requested} is more than limits.{name} {limits[name]}"
        elif least != most:
            found[name] = f"requests.{name} {requested} has to be limits.{name} as well"
    return found


def check_amounts(resources: Mapping[str, Any], where: str) -> None:
    """Raise InvalidSpec if a request and a limit contradict each other; ``where`` the resources are comes first."""
    for problem in contradictions(resources).values():
        raise InvalidSpec(f"{where}: {problem}; correct one of them")


def _is_overcommitted(resource: str) -> bool:
    """Whether a limit of the resource may be more than the request, or missing; not for GPUs and huge pages."""
    return "/" not in resource and not resource.startswith("hugepages-")


def _merge_security(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Merge security contexts key by key, without what of ``base`` the overlay contradicts."""
    added = (overlay.get("capabilities") or {}).get("add") or ()
    contradicted = (
        ("allowPrivilegeEscalation", False, overlay.get("privileged") or "CAP_SYS_ADMIN" in added),
        ("privileged", True, overlay.get("allowPrivilegeEscalation") is False),
        ("runAsNonRoot", True, overlay.get("runAsUser") == 0),
        ("runAsUser", 0, overlay.get("runAsNonRoot")),
    )
    left_out = [name for name, value, holds in contradicted if holds and base.get(name) == value]
    return merge_maps({name: value for name, value in base.items() if name not in left_out}, overlay)


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
