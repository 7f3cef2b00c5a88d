"""Routes of requests: from the routes of a service to a Service, and from there to a port of a pod. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isvc_operator.local.addresses import ServiceAddress
from isvc_operator.local.container import LOOPBACK
from isvc_operator.local.pod import Pod
from isvc_operator.manifests import Manifest
from isvc_operator.render.routes import ServiceRoute
from isvc_operator.resolve.containers import is_grpc


@dataclass(frozen=True)
class IngressRoute:
    """Requests for ``host`` and ``path``, or what is below it unless it is ``exact``, go to ``port`` of this machine.

    It is a port of ``service``, which gets the path without ``prefix``; ``path`` includes that.
    """

    host: str
    path: str
    service: str
    port: int
    prefix: str = ""
    exact: bool = False

    def target(self, raw_path: str) -> str:
        """Return the path, with its query, that the service gets for one that was requested."""
        rest = raw_path.removeprefix(self.prefix)
        return rest if rest.startswith("/") else f"/{rest}"


def ingress_routes(
    routes: Iterable[ServiceRoute], children: Sequence[Manifest], pods: Sequence[Pod]
) -> tuple[IngressRoute, ...]:
    """Return the routes of this ingress, which speaks only HTTP/1.1: those for gRPC beside REST are left out."""
    services = {child["metadata"]["name"]: child for child in children if child["kind"] == "Service"}
    return tuple(
        IngressRoute(
            host=host,
            path=(route.prefix + rule.path).rstrip("/") or "/",
            service=rule.service,
            port=_port(services[rule.service], rule.port, pods),
            prefix=route.prefix,
            exact=rule.exact,
        )
        for route in routes
        for host in route.hosts
        for rule in route.rules
        if route.only_grpc or not rule.grpc
    )


def find_route(routes: Iterable[IngressRoute], host: str, path: str) -> IngressRoute | None:
    """Return the route with the longest matching path; ``host`` is that of the header, which may include a port."""
    matching = [route for route in find_host(routes, host) if _fits(path, route)]
    return max(matching, key=lambda route: len(route.path), default=None)


def find_host(routes: Iterable[IngressRoute], host: str) -> list[IngressRoute]:
    """Return the routes of a host."""
    name = host.partition(":")[0].lower()
    return [route for route in routes if route.host == name]


def _fits(path: str, route: IngressRoute) -> bool:
    """Whether the path matches by whole elements, as in an Ingress and in an HTTPRoute."""
    return path == route.path or (not route.exact and path.startswith(route.path.rstrip("/") + "/"))


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


def _port(service: Manifest, number: int, pods: Iterable[Pod]) -> int:
    """Return the port of this machine for a port of a Service."""
    port = next(port for port in service["spec"]["ports"] if port["port"] == number)
    return _target(service, port, pods)


def _grpc(service: Manifest) -> list[Mapping[str, Any]]:
    return [port for port in service["spec"]["ports"] if is_grpc(port.get("name", ""))]


def _target(service: Manifest, port: Mapping[str, Any], pods: Iterable[Pod]) -> int:
    pod = next(pod for pod in pods if _selects(service, pod))
    return pod.ports[port["targetPort"]]


def _selects(service: Manifest, pod: Pod) -> bool:
    return bool(service["spec"]["selector"].items() <= pod.labels.items())
