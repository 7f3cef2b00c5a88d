"""Where a request goes: the rendered Ingress leads to a Service, and that to a port of a pod. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isvc_operator.local.pod import Pod
from isvc_operator.resolve.containers import is_grpc

Manifest = Mapping[str, Any]


@dataclass(frozen=True)
class Route:
    """Requests for ``host`` whose path begins with ``path`` go to ``port`` of this machine, behind ``service``."""

    host: str
    path: str
    service: str
    port: int


def routes_of(children: Sequence[Manifest], pods: Sequence[Pod]) -> tuple[Route, ...]:
    """The routes of one service's children; empty where none of them is an Ingress."""
    services = {child["metadata"]["name"]: child for child in children if child["kind"] == "Service"}
    return tuple(
        Route(rule["host"], path["path"], name, _port(services[name], path["backend"]["service"]["port"], pods))
        for child in children
        if child["kind"] == "Ingress"
        for rule in child["spec"]["rules"]
        for path in rule["http"]["paths"]
        for name in [path["backend"]["service"]["name"]]
    )


def find_route(routes: Iterable[Route], host: str, path: str) -> Route | None:
    """The route of a request, the longest path first; ``host`` as in the header, so perhaps with a port."""
    name = host.partition(":")[0].lower()
    matching = [route for route in routes if route.host == name and _below(path, route.path)]
    return max(matching, key=lambda route: len(route.path), default=None)


def _below(path: str, prefix: str) -> bool:
    """As an Ingress' ``Prefix``: by whole parts of the path."""
    return path == prefix or path.startswith(prefix.rstrip("/") + "/")


def grpc_port(children: Sequence[Manifest], pods: Sequence[Pod]) -> int | None:
    """The port of this machine that speaks gRPC; None where the service has no such port."""
    targets = (_target(child, port, pods) for child in children if child["kind"] == "Service" for port in _grpc(child))
    return next(targets, None)


def _port(service: Manifest, wanted: Mapping[str, Any], pods: Iterable[Pod]) -> int:
    """The wanted port; in place of one for gRPC, which needs HTTP/2, another one, as the ingress here has HTTP/1.1."""
    ports = sorted(
        service["spec"]["ports"], key=lambda port: (port in _grpc(service), port["port"] != wanted["number"])
    )
    return _target(service, ports[0], pods)


def _grpc(service: Manifest) -> list[Mapping[str, Any]]:
    return [port for port in service["spec"]["ports"] if is_grpc(port["name"])]


def _target(service: Manifest, port: Mapping[str, Any], pods: Iterable[Pod]) -> int:
    pod = next(pod for pod in pods if service["spec"]["selector"].items() <= pod.labels.items())
    return pod.ports[port["targetPort"]]
