"""How a pod ends: proxies notice it, the server finishes its requests, and only then the pod is killed.

Every server runs on for some seconds before it gets SIGTERM (preStop). Its requests then have as long as ``timeout``
allows one of them. Both fit into the pod's grace period, after which the kubelet kills what still runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from isvc_operator.api.names import CONTAINER_SERVER, CONTAINER_TRANSFORMER
from isvc_operator.limits import GRACE_SECONDS
from isvc_operator.manifests import Container
from isvc_operator.resolve.containers import merge_items
from isvc_operator.resolve.settings import is_usable

# The seconds that both runtimes, and servers on our SDK, give requests under way after SIGTERM.
_DRAIN: Final = "GRACE_PERIOD"
_NOTICED = 5  # seconds for every proxy to notice the removed endpoint before the server refuses connections
_STOPPED = 5  # seconds for a server to end after its last request
_DEFAULT = 30  # seconds, Kubernetes' default
_DRAINED = 20  # seconds that requests have with that default
_FIELD = "terminationGracePeriodSeconds"


def with_grace_period(pod: Mapping[str, Any], timeout: int | None) -> dict[str, Any]:
    """Return the pod with a grace period in which a request of ``timeout`` seconds is finished, unless it has one."""
    drained = max(_DRAINED, timeout if timeout is not None and is_usable(timeout) else 0)
    grace = min(_before_stop(CONTAINER_SERVER, pod) + drained + _STOPPED, GRACE_SECONDS)
    return {_FIELD: grace, **pod} if grace > _DEFAULT else dict(pod)


def with_pre_stop(container: Container, pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the server or transformer with our preStop hook, unless it has another; ``pod`` has all containers."""
    hooks = container.get("lifecycle", {})
    sleep = {"sleep": {"seconds": _before_stop(container.get("name"), pod)}}
    return within_grace_period({**container, "lifecycle": {"preStop": sleep, **hooks}}, pod)


def with_drain_seconds(container: Container, pod: Mapping[str, Any], *, over: bool = False) -> dict[str, Any]:
    """Tell the server how long its requests have after SIGTERM, if the pod has a grace period of its own.

    A variable that the container has already is kept, or replaced with ``over``.
    """
    if _FIELD not in pod:
        return dict(container)
    seconds = max(1, pod[_FIELD] - _sleep(container) - _STOPPED)
    ours, own = [{"name": _DRAIN, "value": str(seconds)}], container.get("env", ())
    return {**container, "env": merge_items(own, ours, "name") if over else merge_items(ours, own, "name")}


def reads_drain_seconds(container: Container) -> bool:
    """Whether a runtime's server reads that time, which its own setting shows."""
    return any(item.get("name") == _DRAIN for item in container.get("env", ()))


def within_grace_period(container: Container, pod: Mapping[str, Any]) -> dict[str, Any]:
    """Limit the container's preStop sleep to the pod's grace period: the API server refuses a longer one."""
    grace = pod.get(_FIELD, _DEFAULT)
    if _sleep(container) <= grace:
        return dict(container)
    others = {name: hook for name, hook in container["lifecycle"].items() if name != "preStop"}
    return {**container, "lifecycle": {**others, **({"preStop": {"sleep": {"seconds": grace}}} if grace > 0 else {})}}


def _before_stop(name: str | None, pod: Mapping[str, Any]) -> int:
    """A server behind a transformer in its pod runs longer, because the transformer's last requests need it."""
    behind = name != CONTAINER_TRANSFORMER and any(
        item.get("name") == CONTAINER_TRANSFORMER for item in pod.get("containers", ())
    )
    return 2 * _NOTICED if behind else _NOTICED


def _sleep(container: Container) -> int:
    seconds: int = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    return seconds
