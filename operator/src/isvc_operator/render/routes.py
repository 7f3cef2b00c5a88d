"""The routes of a service: which requests from outside the cluster go to which of its Services. Pure.

They are rendered as an Ingress (``ingress.py``) or as HTTPRoutes and GRPCRoutes (``gateway_routes.py``), and
``isvc run`` serves them as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from isvc_operator.api.names import PATH, route_name
from isvc_operator.resolve.component import SERVICE_PORT, Component, service_port
from isvc_operator.resolve.components import is_usable, specified_components
from isvc_operator.resolve.containers import flag_value
from isvc_operator.resolve.service import Resolved
from isvc_operator.resolve.transformer import MODEL_NAME

GRPC_PATH: Final = "/inference.GRPCInferenceService"  # of each call of the v2 protocol over gRPC
_EVERY_PATH: Final = "/"


@dataclass(frozen=True)
class PathRule:
    """Requests for ``path`` and for what is below it, or with ``exact`` for ``path`` alone, go to a Service.

    ``port`` is that of the Service, ``main_port`` the one that leads to the first port of the pods. ``timeout`` counts
    seconds; without one the gateway's default applies.
    """

    path: str
    service: str
    port: int
    timeout: int | None = None
    exact: bool = False
    grpc: bool = False
    main_port: int = SERVICE_PORT


@dataclass(frozen=True)
class ServiceRoute:
    """Requests for ``hosts`` follow the rule with the longest path. ``name`` is unique in the namespace.

    ``prefix`` is a path that all of them begin with, and that servers do not see; "" for none.
    """

    name: str
    hosts: tuple[str, ...]
    rules: tuple[PathRule, ...]
    prefix: str = ""

    @property
    def only_grpc(self) -> bool:
        """Whether its servers speak nothing but gRPC."""
        return all(rule.grpc for rule in self.rules)


def routes_of(resolved: Resolved) -> tuple[ServiceRoute, ...]:
    """Return the service's routes, then one for each component; none if annotations that restrict access would be lost.

    A route without a host is left out: its hosts belong to other services, or the service is cluster-local.
    """
    if resolved.ingress_annotations.guards:
        return ()
    return tuple(route for route in _every_route(resolved) if route.hosts)


def _every_route(resolved: Resolved) -> Iterator[ServiceRoute]:
    name, hosts = resolved.service.metadata.name, resolved.hosts
    rules = (*_explain(resolved), *_rules(resolved, resolved.transformer or resolved.predictor))
    yield ServiceRoute(route_name(name), hosts.service, rules)
    if hosts.path:
        below = tuple(rule for rule in rules if not rule.grpc)  # a call of gRPC cannot have a prefix
        yield ServiceRoute(route_name(name, PATH), (hosts.path.host,), below, prefix=hosts.path.path)
    for component in resolved.components:
        own = tuple(_rules(resolved, component))
        yield ServiceRoute(route_name(name, component.kind), hosts.components.get(component.kind, ()), own)


def _explain(resolved: Resolved) -> Iterator[PathRule]:
    """Yield the rule for explanations, which has the name of the explainer's model: not every gateway has patterns."""
    if explainer := resolved.explainer:
        path = f"/v1/models/{flag_value(explainer.server, MODEL_NAME)}:explain"
        main = explainer.main_port
        port = service_port(explainer, grpc=False) or main
        yield PathRule(path, explainer.name, port, _timeout(resolved, explainer), exact=True, main_port=main)


def _rules(resolved: Resolved, component: Component) -> Iterator[PathRule]:
    """Yield the rules of a component: gRPC has one of its own if the component has ports for both."""
    timeout, main = _timeout(resolved, component), component.main_port
    rest, grpc = service_port(component, grpc=False), service_port(component, grpc=True)
    if rest is None:
        yield PathRule(_EVERY_PATH, component.name, main, timeout, grpc=True, main_port=main)
        return
    if grpc is not None:
        yield PathRule(GRPC_PATH, component.name, grpc, timeout, grpc=True, main_port=main)
    yield PathRule(_EVERY_PATH, component.name, rest, timeout, main_port=main)


def _timeout(resolved: Resolved, component: Component) -> int | None:
    spec = dict(specified_components(resolved.service.spec))[component.kind]
    return spec.timeout if spec.timeout is not None and is_usable(spec.timeout) else None
