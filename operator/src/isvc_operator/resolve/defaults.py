"""Steps: how a pod ends, defaults for what nobody has set, and checks of lists and resources.

Proxies notice the end of a pod, the server finishes its requests, and only then the pod is killed. Every server runs
on for some seconds before it gets SIGTERM (preStop). Its requests then have as long as ``timeout`` allows one of them.
Both fit into the pod's grace period, after which the kubelet kills what still runs.

The defaults of the user's own servers satisfy the `restricted` Pod Security Standard. The user's settings win, so a
container can run as root.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from isvc_operator.api.base import ApiModel
from isvc_operator.api.components import FRAMEWORKS
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.names import CONTAINER_SERVER, CONTAINER_TRANSFORMER, PREDICTOR
from isvc_operator.config import ResourceConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.limits import GRACE_SECONDS
from isvc_operator.manifests import Container
from isvc_operator.resolve.component import Component, Context, ModelOnRuntime
from isvc_operator.resolve.containers import check_amounts, contradictions, identity, merge_items
from isvc_operator.resolve.requested import RequestedComponent, components_of
from isvc_operator.text import one_line

# The seconds that both runtimes, and servers on our SDK, give requests under way after SIGTERM.
_DRAIN: Final = "GRACE_PERIOD"
_NOTICED = 5  # seconds for every proxy to notice the removed endpoint before the server refuses connections
_STOPPED = 5  # seconds for a server to end after its last request
_DEFAULT_GRACE = 30  # seconds, Kubernetes' default
_DRAINED = 20  # seconds that requests have with that default
_GRACE_PERIOD = "terminationGracePeriodSeconds"


def termination(component: Component, context: Context) -> Component:
    """Return the component with a grace period, and with servers that run on in it."""
    # A server behind a transformer in its pod runs longer, because the transformer's last requests need it.
    behind = any(item.get("name") == CONTAINER_TRANSFORMER for item in context.requested.spec.containers or ())
    notice = 2 * _NOTICED if behind else _NOTICED
    # Enough to finish a request that takes as long as it may.
    grace = min(notice + max(_DRAINED, component.timeout or 0) + _STOPPED, GRACE_SECONDS)
    pod = {_GRACE_PERIOD: grace, **component.pod} if grace > _DEFAULT_GRACE else dict(component.pod)
    server = with_pre_stop(component.server, pod, notice)
    if context.served is None:
        server = with_drain_seconds(server, pod)
    elif _DRAIN in {item["name"] for item in server.get("env", ())} - {
        item["name"] for item in context.served.model.env or ()
    }:
        # Its runtime says that the server reads it, and the service does not set it.
        server = with_drain_seconds(server, pod, hook=_NOTICED, over=True)
    pod["containers"] = [_beside(item, pod, context) for item in pod["containers"]]
    return replace(component, server=server, pod=pod)


def _beside(container: Container, pod: Mapping[str, Any], context: Context) -> Container:
    """Return a container beside the server: in the predictor's pod, a transformer serves as well."""
    if context.requested.kind == PREDICTOR and container.get("name") == CONTAINER_TRANSFORMER:
        return with_drain_seconds(with_pre_stop(container, pod, _NOTICED), pod)
    names = [item.get("name") for item in context.served.chosen.runtime.spec.containers] if context.served else []
    return within_grace_period(container, pod) if container.get("name") in names else container


def with_pre_stop(container: Container, pod: Mapping[str, Any], notice: int) -> dict[str, Any]:
    """Return a server that runs on for so many seconds, unless it has another preStop hook."""
    hooks = container.get("lifecycle", {})
    return within_grace_period({**container, "lifecycle": {"preStop": {"sleep": {"seconds": notice}}, **hooks}}, pod)


def with_drain_seconds(
    container: Container, pod: Mapping[str, Any], *, hook: int = 0, over: bool = False
) -> dict[str, Any]:
    """Tell the server how long its requests have after SIGTERM, if the pod has a grace period of its own.

    A preStop hook that does not sleep counts as ``hook`` seconds. A variable that the container has already is kept, or
    replaced with ``over``.
    """
    if _GRACE_PERIOD not in pod:
        return dict(container)
    seconds = max(1, pod[_GRACE_PERIOD] - (_sleep(container) or hook) - _STOPPED)
    ours, own = [{"name": _DRAIN, "value": str(seconds)}], container.get("env", ())
    return {**container, "env": merge_items(own, ours, "name") if over else merge_items(ours, own, "name")}


def within_grace_period(container: Container, pod: Mapping[str, Any]) -> dict[str, Any]:
    """Limit the container's preStop sleep to the pod's grace period: the API server refuses a longer one."""
    grace = pod.get(_GRACE_PERIOD, _DEFAULT_GRACE)
    if _sleep(container) <= grace:
        return dict(container)
    others = {name: hook for name, hook in container["lifecycle"].items() if name != "preStop"}
    return {**container, "lifecycle": {**others, **({"preStop": {"sleep": {"seconds": grace}}} if grace > 0 else {})}}


def _sleep(container: Container) -> int:
    seconds: int = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    return seconds


def with_defaults(component: Component, context: Context) -> Component:
    """Return the component with the defaults; the containers beside a transformer are left as they are."""
    pod, config, server = component.pod, context.config, component.server
    security, resources = pod.get("securityContext", {}), config.inference_service.resource
    servers = (CONTAINER_SERVER, CONTAINER_TRANSFORMER) if component.kind == PREDICTOR else ()
    fields = {
        **pod,
        "containers": [
            restricted(item, security, resources) if item.get("name") in servers else item for item in pod["containers"]
        ],
        "automountServiceAccountToken": pod.get(
            "automountServiceAccountToken", config.security.auto_mount_service_account_token
        ),
        # A variable for every Service of the namespace would reach the server: one named "http" sets HTTP_PORT.
        "enableServiceLinks": pod.get("enableServiceLinks", False),
    }
    own = server if context.served else restricted(server, security, resources)
    return replace(component, server=own, pod=fields)


def restricted(container: Container, pod: Mapping[str, Any], resources: ResourceConfig) -> dict[str, Any]:
    """Return one of the user's servers with resources and a security context; ``pod`` is that of its pod."""
    return {
        **container,
        "resources": _with_amounts(container.get("resources", {}), resources),
        "securityContext": _without_privileges(container.get("securityContext", {}), pod),
    }


def _with_amounts(given: Mapping[str, Any], defaults: ResourceConfig) -> dict[str, Any]:
    """Apply a default only if neither request nor limit is given, because it could contradict the other one."""
    resources: dict[str, Any] = {
        name: dict(value) if isinstance(value, Mapping) else value for name, value in given.items()
    }
    specified = {*given.get("requests", {}), *given.get("limits", {})}
    defaulted = (
        ("requests", "cpu", defaults.cpu_request),
        ("requests", "memory", defaults.memory_request),
        ("limits", "cpu", defaults.cpu_limit),
        ("limits", "memory", defaults.memory_limit),
    )
    for kind, name, amount in defaulted:
        if amount and name not in specified:
            resources.setdefault(kind, {})[name] = amount
    return resources


def _without_privileges(own: Mapping[str, Any], pod: Mapping[str, Any]) -> dict[str, Any]:
    context: dict[str, Any] = {}
    if not own.get("privileged") and "capabilities" not in own:
        context |= {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    if "runAsNonRoot" not in pod and own.get("runAsUser", pod.get("runAsUser")) != 0:
        context["runAsNonRoot"] = True
    return {**context, **own}


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
Part = tuple[str, Mapping[str, Any]]


def check_repeated_items(component: Component, context: Context) -> Component:
    """Return the component as it is; raises InvalidSpec if one of its lists, or of its runtime's, has an item twice."""
    _check_lists(_parts(context.requested, context.served))
    return component


def _check_lists(parts: Iterable[Part]) -> None:
    for path, part in parts:
        for name, key in _KEYS.items():
            given = part.get(name)  # of a container, it may be an unknown field: of any type
            listed = given if isinstance(given, list) else ()
            items = [item for item in listed if isinstance(item, Mapping) and item.get(key) is not None]
            counts = Counter(identity(item, key) for item in items)
            if repeated := next((item for item in items if counts[identity(item, key)] > 1), None):
                value, count = one_line(str(repeated[key])), counts[identity(repeated, key)]
                raise InvalidSpec(f"{path}.{name} has {count} items with {key} {value}; keep one of them")


def check_resources(component: Component, context: Context) -> Component:
    """Return the component as it is; raises InvalidSpec for a request above its limit, with where both are from.

    Those that are from different places do not contradict each other any more (``merge_resources``).
    """
    pod = component.pod
    merged = (pod, component.server, *pod["containers"], *pod.get("initContainers", ()))
    if any(contradictions(part.get("resources") or {}) for part in merged):
        _check_amounts(_parts(context.requested, context.served))
    return component


def _check_amounts(parts: Iterable[Part]) -> None:
    for path, part in parts:
        check_amounts(part.get("resources") or {}, f"{path}.resources")


def refused_parts(service: InferenceService) -> Iterator[str]:
    """Yield why lists and amounts of a service itself are refused, whatever else is wrong with it."""
    for requested in components_of(service):
        for check in (_check_lists, _check_amounts):
            try:
                check(_parts(requested))
            except InvalidSpec as error:
                yield str(error)


def check_containers(component: Component, context: Context) -> Component:
    """Return the component as it is; raises InvalidSpec for a container that its pod cannot have.

    The kubelet does not start one that has the user root and must not run as root: by itself, or one of them by its
    pod. A service contradicts nothing of its runtime's container (``merge_container``). A volume that only the download
    has may be the node's cache, which pods of all tenants share; with KServe, the API server refuses to mount it,
    because the Deployment does not have it.
    """
    pod, storage = component.pod, component.storage
    downloads = storage.preset.volumes if storage and storage.copied else ()
    internal = {volume["name"] for volume in downloads} - {volume.get("name") for volume in pod.get("volumes", ())}
    for container in (component.server, *pod["containers"], *pod.get("initContainers", ())):
        user = {**(pod.get("securityContext") or {}), **(container.get("securityContext") or {})}
        if user.get("runAsUser") == 0 and user.get("runAsNonRoot") is True:
            raise InvalidSpec(
                f"{context.requested.field}: container {container['name']} has runAsUser 0 and runAsNonRoot true, by "
                "itself or by its pod, so that the kubelet does not start it; remove one of them"
            )
        for mount in container.get("volumeMounts", ()):
            if mount.get("name") in internal:
                raise InvalidSpec(
                    f"container {container.get('name')} mounts {mount['name']}, a volume of the storage-initializer "
                    "alone; declare a volume of your own, with another name"
                )
    return component


def _parts(requested: RequestedComponent, served: ModelOnRuntime | None = None) -> Iterator[Part]:
    """Yield a component as it is requested, its runtime, and each container of these, a model too, by their paths."""
    specs: dict[str, ApiModel] = {requested.field: requested.spec}
    if served:
        runtime = served.chosen.runtime
        specs[f"{runtime.kind} {runtime.metadata.name}: spec"] = runtime.spec
    for field, model in specs.items():
        spec = model.model_dump(exclude_none=True)
        yield field, spec
        for name in _CONTAINER_LISTS:
            for index, container in enumerate(spec.get(name) or ()):
                yield f"{field}.{name}[{index}]", container
        for name in ("model", *FRAMEWORKS):
            if server := spec.get(name):
                yield f"{field}.{name}", server
