"""Step: refuses lists in which an item occurs twice, such as two ports of one name.

The API server refuses such a list in a Deployment. A merge with the runtime's list would drop one of the two items.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from isvc_operator.api.base import ApiModel
from isvc_operator.api.components import FRAMEWORKS
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.component import Component
from isvc_operator.resolve.containers import identity
from isvc_operator.resolve.context import Context
from isvc_operator.text import one_line

Item = Mapping[str, Any]
# Lists and the keys of their items. Of two variables of one name, Kubernetes uses the second one.
_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "resourceClaims": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
}
_CONTAINER_LISTS = ("containers", "initContainers")


def check_repeated_items(component: Component, context: Context) -> Component:
    """Return the component as it is; raises InvalidSpec if one of its lists, or of its runtime's, has an item twice."""
    _check_spec(context.requested.spec, context.requested.field)
    if context.served:
        runtime = context.served.chosen.runtime
        _check_spec(runtime.spec, f"{runtime.kind} {runtime.metadata.name}: spec")
    _check_ports(component)
    return component


def _check_spec(spec: ApiModel, field: str) -> None:
    """Check the lists of a component or a runtime; ``field`` is the path of ``spec``."""
    document = spec.as_dict()
    _check_lists(document, field)
    for name in _CONTAINER_LISTS:
        for index, container in enumerate(document.get(name) or ()):
            _check_lists(container, f"{field}.{name}[{index}]")
    for name in ("model", *FRAMEWORKS):
        if server := document.get(name):
            _check_lists(server, f"{field}.{name}")


def _check_ports(component: Component) -> None:
    """Raise InvalidSpec if two ports of a container have one name, or two ports of the Service one number."""
    for container in (component.server, *component.pod.get("containers", ())):
        named = [port for port in container.get("ports") or () if port.get("name")]
        if repeated := _repeated(named, lambda port: port["name"]):
            listed = ", ".join(str(port["containerPort"]) for port in repeated)
            raise InvalidSpec(
                f"container {container.get('name')} of the {component.kind} has several ports named "
                f"{one_line(repeated[0]['name'])}: {listed}; give each a name of its own, the runtime's included"
            )
    main, *others = component.front.get("ports") or [{}]
    mapped = component.main_port
    protocol = main.get("protocol", "TCP")
    numbers = [port["containerPort"] for port in others if port.get("protocol", "TCP") == protocol]
    if main.get("containerPort") != mapped and mapped in numbers:
        raise InvalidSpec(
            f"port {mapped} of the {component.kind} is not its first one, but the Service maps its own port "
            f"{mapped} to the first one; list {mapped} first, or use another port"
        )


def _check_lists(document: Mapping[str, Any], field: str) -> None:
    for name, key in _KEYS.items():
        listed = document.get(name) or ()
        if len(listed) < 2:
            continue  # which is most of them
        items = [item for item in listed if item.get(key) is not None]
        if repeated := _repeated(items, partial(identity, key=key)):
            value = one_line(str(repeated[0][key]))
            raise InvalidSpec(f"{field}.{name} has {len(repeated)} items with {key} {value}; keep one of them")


def _repeated(items: Iterable[Item], key: Callable[[Item], Any]) -> list[Item]:
    """Return the items of the first key that several of them have."""
    groups: defaultdict[Any, list[Item]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return next((group for group in groups.values() if len(group) > 1), [])
