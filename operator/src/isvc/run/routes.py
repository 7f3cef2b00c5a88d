"""Routes of requests: from the routes of a service to a Service, and from there to a port of a pod. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import unquote

from isvc.run.addresses import ServiceAddress
from isvc.run.container import LOOPBACK
from isvc.run.endpoints import Endpoints
from isvc_operator.manifests import Manifest, ServiceKey, name_of
from isvc_operator.render.routes import ServiceRoute
from isvc_operator.resolve.ports import is_grpc

# Only these, so that the page of a stranger whose name leads to this machine (DNS rebinding) reaches nothing.
OWN_NAMES: Final = (LOOPBACK, "localhost")


@dataclass(frozen=True)
class IngressRoute:
    """Requests for ``host`` and ``path``, or what is below it unless it is ``exact``, go to one of the ``endpoints``.

    They are those of a port of ``service``, which gets the path without ``prefix``; ``path`` includes that.
    """

    host: str
    path: str
    service: str
    endpoints: Endpoints
    prefix: str = ""
    exact: bool = False
    key: ServiceKey | None = None

    def target(self, raw_path: str) -> str:
        """Return the path, with its query, that the service gets for one that was requested."""
        rest = raw_path[_length_of(self.prefix, raw_path) :]
        return rest if rest.startswith("/") else f"/{rest}"


def _length_of(prefix: str, raw_path: str) -> int:
    """Return how many characters stand for the prefix, each of which may be written as ``%66``; 0 without it."""
    longest = min(len(raw_path), 3 * len(prefix.encode()))
    return next((end for end in range(longest + 1) if unquote(raw_path[:end]) == prefix), 0)


_PREDICTION = re.compile(
    r"/v1/models/[^/]+:predict|/v2/models/.+/infer"
    r"|/predictions/.+|/models/[^/]+/invoke|/invocations"  # TorchServe's own, by any method
    r"|/inference\.GRPCInferenceService/ModelInfer|/org\.pytorch\.serve\.grpc\.inference\.InferenceAPIsService/Predictions"
)


def is_prediction(target: str) -> bool:
    """Whether a path, with its query, that a service gets is that of predictions; or a method of gRPC."""
    return _PREDICTION.fullmatch(unquote(target.partition("?")[0])) is not None


def is_of_server(path: str) -> bool:
    """Whether a path begins as those that a server has, so that only the service's own before it may be missing."""
    return path.startswith(("/v1/", "/v2/", "/predictions/", "/ping"))


def ingress_routes(
    routes: Iterable[ServiceRoute], endpoints: Mapping[tuple[str, int], Endpoints], key: ServiceKey
) -> tuple[IngressRoute, ...]:
    """Return the routes of this ingress, which speaks only HTTP/1.1: those for gRPC beside REST are left out.

    ``endpoints`` are those of the ports of Services. The routes of the service's first host are also those of a path
    on this machine's own names, for clients that cannot set the header Host.
    """
    found = [
        IngressRoute(
            host=host,
            path=(route.prefix + rule.path).rstrip("/") or "/",
            service=rule.service,
            endpoints=endpoints[rule.service, rule.port],
            prefix=route.prefix,
            exact=rule.exact,
            key=key,
        )
        for route in routes
        for host in route.hosts
        for rule in route.rules
        if route.only_grpc or not rule.grpc
    ]
    first = [route for route in found if route.host == found[0].host and not route.prefix]
    return (*found, *(_below_path(route, host, path_of(key)) for host in OWN_NAMES for route in first))


def path_of(key: ServiceKey) -> str:
    """Return the path of a service on this machine's own names."""
    return f"/{key.namespace}/{key.name}"


def _below_path(route: IngressRoute, host: str, path: str) -> IngressRoute:
    return replace(route, host=host, path=(path + route.path).rstrip("/"), prefix=path)


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


@dataclass(frozen=True)
class ServicePort:
    """A port of a Service; ``target`` is that of the pods with the labels of ``selector``."""

    service: str
    port: int
    target: int
    selector: frozenset[tuple[str, str]]
    is_grpc: bool = False

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether it sends requests to a pod with these labels."""
        return self.selector <= labels.items()


def service_ports(children: Iterable[Manifest]) -> tuple[ServicePort, ...]:
    """Return the ports of the Services among the children."""
    return tuple(
        ServicePort(
            service=name_of(child),
            port=port["port"],
            target=port["targetPort"],
            selector=frozenset(child["spec"]["selector"].items()),
            is_grpc=is_grpc(port.get("name", "")),
        )
        for child in children
        if child["kind"] == "Service"
        for port in child["spec"]["ports"]
    )


def addresses_of(
    ports: Iterable[tuple[ServicePort, int]], namespace: str, labels: Sequence[Mapping[str, str]]
) -> tuple[ServiceAddress, ...]:
    """Return the addresses of the Services that select pods with one of these labels.

    Each port has its port on this machine; the Service is also reached by the ports of its pods.
    """
    found: dict[str, dict[int, int]] = {}
    for port, local in ports:
        if any(map(port.selects, labels)):
            found.setdefault(port.service, {}).setdefault(port.target, local)
            found[port.service][port.port] = local
    return tuple(ServiceAddress(name, namespace, LOOPBACK, own) for name, own in found.items())
