"""Step: how a pod ends. Proxies notice it, the server finishes its requests, and only then the pod is killed.

Every server runs on for some seconds before it gets SIGTERM (preStop). Its requests then have as long as ``timeout``
allows one of them. Both fit into the pod's grace period, after which the kubelet kills what still runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from isvc_operator.api.names import CONTAINER_TRANSFORMER, PREDICTOR
from isvc_operator.limits import GRACE_SECONDS
from isvc_operator.manifests import Container
from isvc_operator.resolve.component import Component
from isvc_operator.resolve.components import is_usable
from isvc_operator.resolve.containers import merge_items
from isvc_operator.resolve.context import Context

# The seconds that both runtimes, and servers on our SDK, give requests under way after SIGTERM.
_DRAIN: Final = "GRACE_PERIOD"
_NOTICED = 5  # seconds for every proxy to notice the removed endpoint before the server refuses connections
_STOPPED = 5  # seconds for a server to end after its last request
_DEFAULT = 30  # seconds, Kubernetes' default
_DRAINED = 20  # seconds that requests have with that default
_FIELD = "terminationGracePeriodSeconds"


def termination(component: Component, context: Context) -> Component:
    """Return the component with a grace period, and with servers that run on in it."""
    # A server behind a transformer in its pod runs longer, because the transformer's last requests need it.
    behind = any(item.get("name") == CONTAINER_TRANSFORMER for item in context.requested.spec.containers or ())
    notice = 2 * _NOTICED if behind else _NOTICED
    pod = with_grace_period(component.pod, context.requested.spec.timeout, notice)
    server = with_pre_stop(component.server, pod, notice)
    if context.served is None:
        server = with_drain_seconds(server, pod)
    elif _is_read(server) and not _is_read(context.served.model.as_dict()):
        server = with_drain_seconds(server, pod, hook=_NOTICED, over=True)
    pod["containers"] = [_beside(item, pod, context) for item in pod["containers"]]
    return replace(component, server=server, pod=pod)


def _beside(container: Container, pod: Mapping[str, Any], context: Context) -> Container:
    """Return a container beside the server: in the predictor's pod, a transformer serves as well."""
    if context.requested.kind == PREDICTOR and container.get("name") == CONTAINER_TRANSFORMER:
        return with_drain_seconds(with_pre_stop(container, pod, _NOTICED), pod)
    names = [item.get("name") for item in context.served.chosen.runtime.spec.containers] if context.served else []
    return within_grace_period(container, pod) if container.get("name") in names else container


def with_grace_period(pod: Mapping[str, Any], timeout: int | None, notice: int = _NOTICED) -> dict[str, Any]:
    """Return the pod with a grace period in which a request of ``timeout`` seconds is finished, unless it has one."""
    drained = max(_DRAINED, timeout if timeout is not None and is_usable(timeout) else 0)
    grace = min(notice + drained + _STOPPED, GRACE_SECONDS)
    return {_FIELD: grace, **pod} if grace > _DEFAULT else dict(pod)


def with_pre_stop(container: Container, pod: Mapping[str, Any], notice: int = _NOTICED) -> dict[str, Any]:
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
    if _FIELD not in pod:
        return dict(container)
    seconds = max(1, pod[_FIELD] - (_sleep(container) or hook) - _STOPPED)
    ours, own = [{"name": _DRAIN, "value": str(seconds)}], container.get("env", ())
    return {**container, "env": merge_items(own, ours, "name") if over else merge_items(ours, own, "name")}


def within_grace_period(container: Container, pod: Mapping[str, Any]) -> dict[str, Any]:
    """Limit the container's preStop sleep to the pod's grace period: the API server refuses a longer one."""
    grace = pod.get(_FIELD, _DEFAULT)
    if _sleep(container) <= grace:
        return dict(container)
    others = {name: hook for name, hook in container["lifecycle"].items() if name != "preStop"}
    return {**container, "lifecycle": {**others, **({"preStop": {"sleep": {"seconds": grace}}} if grace > 0 else {})}}


def _is_read(container: Container) -> bool:
    """Whether a server reads that time, which its own setting shows."""
    return any(item.get("name") == _DRAIN for item in container.get("env", ()))


def _sleep(container: Container) -> int:
    seconds: int = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    return seconds
