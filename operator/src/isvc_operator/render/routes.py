"""The routes of a service: which requests from outside the cluster go to which of its Services. Pure.

They are rendered as an Ingress or as HTTPRoutes and GRPCRoutes, and ``isvc run`` serves them as they are.

A path on the host of all services needs an Ingress of its own: the annotations by which controllers remove the path
apply to a whole Ingress.

HTTPRoutes have KServe's names (docs/kserve.md), so KServe's own are adopted in place. One HTTPRoute also routes gRPC if
a Service has ports for both: of an HTTPRoute and a GRPCRoute with the same host, a gateway accepts only one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from isvc_operator.api.kinds import GATEWAY_API
from isvc_operator.api.names import LABEL_SERVICE, PATH, route_name
from isvc_operator.config import IngressConfig
from isvc_operator.render.metadata import build_child
from isvc_operator.resolve.component import SERVICE_PORT, Component
from isvc_operator.resolve.containers import flag_value
from isvc_operator.resolve.placeholders import fill, values_of
from isvc_operator.resolve.service import Resolved
from isvc_operator.resolve.transformer import MODEL_NAME

GRPC_PATH: Final = "/inference.GRPCInferenceService"  # of each call of the v2 protocol over gRPC
_EVERY_PATH: Final = "/"
_DEFAULT_TIMEOUT: Final = 60  # seconds, as with KServe
_LARGEST: Final = 99_999  # of a number in a duration of the Gateway API: five digits
_HOUR: Final = 3600  # seconds
_NONE: Final[Mapping[str, str]] = {}


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
    name, hosts = resolved.service.metadata.name, resolved.hosts
    rules = tuple(_rules(resolved.transformer or resolved.predictor))
    if resolved.explainer:
        rules = (_explain(resolved.explainer), *rules)
    routes = [ServiceRoute(route_name(name), hosts.service, rules)]
    if hosts.path:
        below = tuple(rule for rule in rules if not rule.grpc)  # a call of gRPC cannot have a prefix
        routes.append(ServiceRoute(route_name(name, PATH), (hosts.path.host,), below, prefix=hosts.path.path))
    for component in resolved.components:
        own = tuple(_rules(component))
        routes.append(ServiceRoute(route_name(name, component.kind), hosts.components.get(component.kind, ()), own))
    return tuple(route for route in routes if route.hosts)


def _explain(explainer: Component) -> PathRule:
    """Return the rule for explanations, which has the name of the explainer's model: not every gateway has patterns."""
    path = f"/v1/models/{flag_value(explainer.server, MODEL_NAME)}:explain"
    main, port = explainer.ports.main, explainer.ports.rest or explainer.ports.main
    return PathRule(path, explainer.name, port, explainer.timeout, exact=True, main_port=main)


def _rules(component: Component) -> Iterator[PathRule]:
    """Yield the rules of a component: gRPC has one of its own if the component has ports for both."""
    timeout, main = component.timeout, component.ports.main
    rest, grpc = component.ports.rest, component.ports.grpc
    if rest is None:
        yield PathRule(_EVERY_PATH, component.name, main, timeout, grpc=True, main_port=main)
        return
    if grpc is not None:
        yield PathRule(GRPC_PATH, component.name, grpc, timeout, grpc=True, main_port=main)
    yield PathRule(_EVERY_PATH, component.name, rest, timeout, main_port=main)


def build_ingresses(resolved: Resolved, config: IngressConfig) -> Iterator[dict[str, Any]]:
    """Yield the Ingress of a service, and the one for its path; none if the service has no routes."""
    routes = routes_of(resolved)
    rules = [
        {"host": host, "http": {"paths": [_path(rule) for rule in _for_http(route)]}}
        for route in routes
        if not route.prefix
        for host in route.hosts
    ]
    service = resolved.service.metadata
    if rules:
        secret = fill(config.tls_secret_name, values_of(service)) if config.tls_secret_name else None
        yield _ingress(resolved, config, service.name, rules=rules, secret=secret)
    for route in routes:
        if route.prefix and (own := config.path_ingress):
            values = {"Path": route.prefix}
            annotations = {name: fill(value, values) for name, value in own.annotations.items()}
            below = {"path": fill(own.path, values), "pathType": own.path_type}
            paths = [{**_path(rule), **below} for rule in _for_http(route) if not rule.exact]
            rules = [{"host": host, "http": {"paths": paths}} for host in route.hosts]
            yield _ingress(
                resolved, config, route.name, rules=rules, secret=own.tls_secret_name, annotations=annotations
            )


def _ingress(
    resolved: Resolved,
    config: IngressConfig,
    name: str,
    *,
    rules: list[dict[str, Any]],
    secret: str | None,
    annotations: Mapping[str, str] = _NONE,
) -> dict[str, Any]:
    """Return an Ingress with the administrator's annotations, and the service's allowed ones over them."""
    spec: dict[str, Any] = {"rules": rules}
    if config.ingress_class_name:
        spec["ingressClassName"] = config.ingress_class_name
    if secret:
        spec["tls"] = [{"hosts": [rule["host"] for rule in rules], "secretName": secret}]
    service, entry = resolved.service.metadata, resolved.transformer or resolved.predictor
    merged = {
        **(_backend_annotations(entry) if entry.tls else {}),
        **config.annotations,
        **resolved.ingress_annotations.allowed,
        **annotations,
    }
    return build_child(service, "Ingress", name, labels={LABEL_SERVICE: service.name}, annotations=merged, spec=spec)


def _backend_annotations(entry: Component) -> Mapping[str, str]:
    """Return what ingress-nginx and the two for HAProxy read to speak TLS to the pods that get the requests."""
    only_grpc = entry.ports.rest is None
    return {
        "nginx.ingress.kubernetes.io/backend-protocol": "GRPCS" if only_grpc else "HTTPS",
        "haproxy-ingress.github.io/backend-protocol": "grpcs" if only_grpc else "h1-ssl",
        "haproxy.org/server-ssl": "true",
    }


def _for_http(route: ServiceRoute) -> list[PathRule]:
    """Return the rules, without those for gRPC beside others: most controllers serve one protocol for each host."""
    return [rule for rule in route.rules if not rule.grpc] or list(route.rules)


def _path(rule: PathRule) -> dict[str, Any]:
    """Return the path of a rule. ingress-nginx accepts ':' and '.' only with the type of the exact ones."""
    return {
        "path": rule.path,
        "pathType": "ImplementationSpecific" if rule.exact else "Prefix",
        "backend": {"service": {"name": rule.service, "port": {"number": rule.main_port}}},
    }


def build_routes(resolved: Resolved, config: IngressConfig) -> Iterator[dict[str, Any]]:
    service, (namespace, gateway) = resolved.service.metadata, config.gateway
    for route in routes_of(resolved):
        yield build_child(
            service,
            "GRPCRoute" if route.only_grpc else "HTTPRoute",
            route.name,
            labels={**service.labels, LABEL_SERVICE: service.name},
            annotations={**config.annotations, **resolved.ingress_annotations.allowed},
            spec={
                "parentRefs": [{"group": GATEWAY_API, "kind": "Gateway", "namespace": namespace, "name": gateway}],
                "hostnames": list(route.hosts),
                "rules": [_grpc_rule(resolved, rule) for rule in route.rules]
                if route.only_grpc
                else [_http_rule(resolved, route, rule, config) for rule in route.rules],
            },
        )


def _http_rule(resolved: Resolved, route: ServiceRoute, rule: PathRule, config: IngressConfig) -> dict[str, Any]:
    path = {"type": "Exact" if rule.exact else "PathPrefix", "value": (route.prefix + rule.path).rstrip("/") or "/"}
    filters = [_headers(resolved), *([_without_prefix(rule)] if route.prefix else ())]
    built: dict[str, Any] = {
        "matches": [{"path": path}],
        "filters": filters,
        "backendRefs": [_backend_ref(resolved, rule)],
    }
    if not config.disable_http_route_timeout:
        built["timeouts"] = {"request": _duration(rule.timeout or _DEFAULT_TIMEOUT)}
    return built


def _duration(seconds: int) -> str:
    """Return a duration of the Gateway API; what is too long for it in seconds is rounded up to hours."""
    return f"{seconds}s" if seconds <= _LARGEST else f"{min(-(-seconds // _HOUR), _LARGEST)}h"


def _grpc_rule(resolved: Resolved, rule: PathRule) -> dict[str, Any]:
    """Return a rule for every call. A GRPCRoute has no timeouts: clients send their own with each call."""
    return {"filters": [_headers(resolved)], "backendRefs": [_backend_ref(resolved, rule)]}


def _headers(resolved: Resolved) -> dict[str, Any]:
    """Return the filter that sets KServe's headers with the service's name; clients cannot send others."""
    service = resolved.service.metadata
    values = {"KServe-Isvc-Name": service.name, "KServe-Isvc-Namespace": service.namespace}
    headers = [{"name": name, "value": value} for name, value in values.items()]
    return {"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": headers}}


def _without_prefix(rule: PathRule) -> dict[str, Any]:
    path = (
        {"type": "ReplaceFullPath", "replaceFullPath": rule.path}
        if rule.exact
        else {"type": "ReplacePrefixMatch", "replacePrefixMatch": rule.path}
    )
    return {"type": "URLRewrite", "urlRewrite": {"path": path}}


def _backend_ref(resolved: Resolved, rule: PathRule) -> dict[str, Any]:
    namespace = resolved.service.metadata.namespace
    return {"kind": "Service", "namespace": namespace, "name": rule.service, "port": rule.port}
