"""Routes of requests: from the rendered Ingress to a Service, and from there to a port of a pod. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isvc_operator.local.addresses import ServiceAddress
from isvc_operator.local.container import LOOPBACK
from isvc_operator.local.pod import Pod
from isvc_operator.manifests import Manifest
from isvc_operator.resolve.containers import is_grpc


@dataclass(frozen=True)
class IngressRoute:
    """Requests for ``host`` with the path prefix ``path`` go to ``port`` of this machine, a port of ``service``."""

    host: str
    path: str
    service: str
    port: int


def routes_of(children: Sequence[Manifest], pods: Sequence[Pod]) -> tuple[IngressRoute, ...]:
    """Return the routes of one service's children; empty if none of them is an Ingress."""
    services = {child["metadata"]["name"]: child for child in children if child["kind"] == "Service"}
    return tuple(
        IngressRoute(
            host=rule["host"],
            path=path["path"],
            service=name,
            port=_port(services[name], path["backend"]["service"]["port"], pods),
        )
        for child in children
        if child["kind"] == "Ingress"
        for rule in child["spec"]["rules"]
        for path in rule["http"]["paths"]
        for name in [path["backend"]["service"]["name"]]
    )


def find_route(routes: Iterable[IngressRoute], host: str, path: str) -> IngressRoute | None:
    """Return the route with the longest matching path; ``host`` is that of the header, which may include a port."""
    name = host.partition(":")[0].lower()
    matching = [route for route in routes if route.host == name and _fits(path, route)]
    return max(matching, key=lambda route: len(route.path), default=None)


def _fits(path: str, route: IngressRoute) -> bool:
    """Whether the path matches as with an Ingress' path type ``Prefix``: by whole elements."""
    return path == route.path or path.startswith(route.path.rstrip("/") + "/")


def grpc_port(children: Sequence[Manifest], pods: Sequence[Pod]) -> int | None:
    """Return the port of this machine for gRPC; None if the service has none."""
    targets = (_target(child, port, pods) for child in children if child["kind"] == "Service" for port in _grpc(child))
    return next(targets, None)


def addresses_of(children: Sequence[Manifest], pods: Sequence[Pod]) -> tuple[ServiceAddress, ...]:
    """Return the addresses of the Services whose pods are planned."""
    return tuple(
        ServiceAddress(child["metadata"]["name"], child["metadata"]["namespace"], LOOPBACK, _ports(child, pod))
        for child in children
        if child["kind"] == "Service"
        for pod in pods
        if _selects(child, pod)
    )


def _ports(service: Manifest, pod: Pod) -> Mapping[int, int]:
    """Map the ports of the Service and of its pods to local ports; the Service's win."""
    own = {port["port"]: pod.ports[port["targetPort"]] for port in service["spec"]["ports"]}
    return {**pod.ports, **own}


def _port(service: Manifest, backend: Mapping[str, Any], pods: Iterable[Pod]) -> int:
    """Return the backend's port, or another one if that is for gRPC: this ingress supports only HTTP/1.1."""
    ports = sorted(
        service["spec"]["ports"], key=lambda port: (port in _grpc(service), port["port"] != backend["number"])
    )
    return _target(service, ports[0], pods)


def _grpc(service: Manifest) -> list[Mapping[str, Any]]:
    return [port for port in service["spec"]["ports"] if is_grpc(port["name"])]


def _target(service: Manifest, port: Mapping[str, Any], pods: Iterable[Pod]) -> int:
    pod = next(pod for pod in pods if _selects(service, pod))
    return pod.ports[port["targetPort"]]


def _selects(service: Manifest, pod: Pod) -> bool:
    return bool(service["spec"]["selector"].items() <= pod.labels.items())
