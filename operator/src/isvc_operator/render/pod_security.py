"""Which fields of a pod Kubernetes' Pod Security Standard ``restricted`` refuses, as the newest API server. Pure.

Pod Security admission does the same at the creation of a pod. Here it is known before a Deployment is changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from isvc_operator.api.names import CONFIG_MAP
from isvc_operator.config import OperatorConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.limits import NAMED
from isvc_operator.manifests import Manifest, annotations_of, name_of

_UNSET: Final = (None, False)
_PROFILES: Final = ("RuntimeDefault", "Localhost")
_VOLUMES: Final = frozenset(
    (
        "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected",
        "secret",
    )
)  # fmt: skip
_SYSCTLS: Final = frozenset(
    (
        "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
    )
)  # fmt: skip
_SELINUX_TYPES: Final = (None, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
# By path: the values that may be given in a pod, in a container, and in the security context of either.
_OF_POD: Final[Mapping[tuple[str, ...], tuple[Any, ...]]] = {
    ("hostNetwork",): _UNSET,
    ("hostPID",): _UNSET,
    ("hostIPC",): _UNSET,
}
_OF_CONTEXT: Final[Mapping[tuple[str, ...], tuple[Any, ...]]] = {
    ("windowsOptions", "hostProcess"): _UNSET,
    ("seLinuxOptions", "type"): _SELINUX_TYPES,
    ("seLinuxOptions", "user"): (None, ""),
    ("seLinuxOptions", "role"): (None, ""),
    ("seccompProfile", "type"): (None, *_PROFILES),
    ("appArmorProfile", "type"): (None, *_PROFILES),
    ("runAsNonRoot",): (None, True),
}
_OF_CONTAINER: Final[Mapping[tuple[str, ...], tuple[Any, ...]]] = {
    ("securityContext", "privileged"): _UNSET,
    ("securityContext", "allowPrivilegeEscalation"): (False,),
    ("securityContext", "procMount"): (None, "", "Default"),
    **{
        (where, action, "host"): (None, "")
        for where in ("livenessProbe", "readinessProbe", "startupProbe")
        for action in ("httpGet", "tcpSocket")
    },
    **{
        ("lifecycle", where, action, "host"): (None, "")
        for where in ("postStart", "preStop")
        for action in ("httpGet", "tcpSocket")
    },
}
# What a container needs, be it the pod's.
_NEEDED: Final = (("runAsNonRoot",), ("seccompProfile", "type"))
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"


def check_pod_security(children: Iterable[Manifest], config: OperatorConfig, namespace: str) -> None:
    """Raise InvalidSpec with the fields that ``podSecurity`` refuses in the pods of these children."""
    if not any(fnmatchcase(namespace, pattern) for pattern in config.pod_security.restricted):
        return
    for child in children:
        if child["kind"] == "Deployment" and (refused := list(refused_fields(child["spec"]["template"]))):
            fields = "; ".join(refused[:NAMED] if len(refused) <= NAMED else [*refused[:NAMED], "and others"])
            raise InvalidSpec(
                f"Deployment {name_of(child)}: {fields}; podSecurity of {CONFIG_MAP} restricts the pods of namespace "
                f"{namespace}; change the fields"
            )


def refused_fields(template: Manifest) -> Iterator[str]:
    """Yield the fields of a pod template that are refused, each with its value or what it has to be."""
    pod = template["spec"]
    context = pod.get("securityContext") or {}
    yield from _not_among(pod, _OF_POD)
    yield from (f"securityContext.{found}" for found in _of_context(context))
    for sysctl in _items(context, "sysctls"):
        if (name := _at(sysctl, ("name",))) not in _SYSCTLS:
            yield f"securityContext.sysctls has {name}"
    for volume in pod.get("volumes") or ():
        if kinds := {kind for kind, source in volume.items() if source is not None} - _VOLUMES - {"name"}:
            yield f"volume {volume.get('name')} is a {min(kinds)}"
    for name, profile in annotations_of(template).items():
        if name.startswith(_APPARMOR) and not (profile in ("", "runtime/default") or profile.startswith("localhost/")):
            yield f"annotation {name} is {profile!r}"
    for container in (*(pod.get("initContainers") or ()), *pod["containers"]):
        where = f"container {container.get('name')}"
        yield from (f"{where}: {found}" for found in _of_container(container, context))


def _of_container(container: Mapping[str, Any], of_pod: Mapping[str, Any]) -> Iterator[str]:
    context = container.get("securityContext") or {}
    yield from _not_among(container, _OF_CONTAINER)
    yield from (f"securityContext.{found}" for found in _of_context(context))
    for path in _NEEDED:
        if _at(context, path) is None and _at(of_pod, path) is None:
            yield f"securityContext.{'.'.join(path)} is not set"
    if "ALL" not in _items(context, "capabilities", "drop"):
        yield "securityContext.capabilities.drop lacks ALL"
    for capability in _items(context, "capabilities", "add"):
        if capability != "NET_BIND_SERVICE":
            yield f"securityContext.capabilities.add has {capability}"
    for port in _items(container, "ports"):
        if number := _at(port, ("hostPort",)):
            yield f"ports has hostPort {number}"


def _of_context(context: Mapping[str, Any]) -> Iterator[str]:
    yield from _not_among(context, _OF_CONTEXT)
    if context.get("runAsUser") == 0:
        yield "runAsUser is 0"


def _not_among(value: Mapping[str, Any], allowed: Mapping[tuple[str, ...], tuple[Any, ...]]) -> Iterator[str]:
    for path, values in allowed.items():
        if (found := _at(value, path)) not in values:
            yield f"{'.'.join(path)} is {'not set' if found is None else json.dumps(found)}"


def _items(value: Mapping[str, Any], *path: str) -> Iterable[Any]:
    found = _at(value, path)
    return found if isinstance(found, list | tuple) else ()


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
