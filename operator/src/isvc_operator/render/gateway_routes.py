"""The routes as objects of the Gateway API: HTTPRoutes, or GRPCRoutes where servers speak nothing but gRPC.

HTTPRoutes have KServe's names (docs/kserve.md), so KServe's own are adopted in place. One HTTPRoute also routes gRPC if
a Service has ports for both: of an HTTPRoute and a GRPCRoute with the same host, a gateway accepts only one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from isvc_operator.api.kinds import GATEWAY_API, kind_named
from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.config import IngressConfig
from isvc_operator.render.metadata import child_metadata
from isvc_operator.render.routes import PathRule, ServiceRoute, routes_of
from isvc_operator.resolve.service import Resolved

_DEFAULT_TIMEOUT: Final = 60  # seconds, as with KServe
_LARGEST: Final = 99_999  # of a number in a duration of the Gateway API: five digits
_HOUR: Final = 3600  # seconds


def route_kind(route: ServiceRoute) -> str:
    """Return the kind of the object for a route."""
    return "GRPCRoute" if route.only_grpc else "HTTPRoute"


def build_routes(resolved: Resolved, config: IngressConfig) -> Iterator[dict[str, Any]]:
    """Yield the HTTPRoutes and GRPCRoutes of a service."""
    service = resolved.service.metadata
    for route in routes_of(resolved):
        kind = kind_named(route_kind(route))
        yield {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": child_metadata(
                service,
                route.name,
                labels={**service.labels, LABEL_SERVICE: service.name},
                annotations={**config.annotations, **resolved.ingress_annotations.allowed},
            ),
            "spec": {
                "parentRefs": [parent_of(config)],
                "hostnames": list(route.hosts),
                "rules": [_grpc_rule(resolved, rule) for rule in route.rules]
                if route.only_grpc
                else [_http_rule(resolved, route, rule, config) for rule in route.rules],
            },
        }


def parent_of(config: IngressConfig) -> dict[str, str]:
    """Return the reference to the Gateway."""
    namespace, name = config.gateway
    return {"group": GATEWAY_API, "kind": "Gateway", "namespace": namespace, "name": name}


def _http_rule(resolved: Resolved, route: ServiceRoute, rule: PathRule, config: IngressConfig) -> dict[str, Any]:
    path = {"type": "Exact" if rule.exact else "PathPrefix", "value": (route.prefix + rule.path).rstrip("/") or "/"}
    filters = [_headers(resolved), *([_without_prefix(rule)] if route.prefix else ())]
    built: dict[str, Any] = {"matches": [{"path": path}], "filters": filters, "backendRefs": [_backend(resolved, rule)]}
    if not config.disable_http_route_timeout:
        built["timeouts"] = {"request": _duration(rule.timeout or _DEFAULT_TIMEOUT)}
    return built


def _duration(seconds: int) -> str:
    """Return a duration of the Gateway API; what is too long for it in seconds is rounded up to hours."""
    return f"{seconds}s" if seconds <= _LARGEST else f"{min(-(-seconds // _HOUR), _LARGEST)}h"


def _grpc_rule(resolved: Resolved, rule: PathRule) -> dict[str, Any]:
    """Return a rule for every call. A GRPCRoute has no timeouts: clients send their own with each call."""
    return {"filters": [_headers(resolved)], "backendRefs": [_backend(resolved, rule)]}


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


def _backend(resolved: Resolved, rule: PathRule) -> dict[str, Any]:
    namespace = resolved.service.metadata.namespace
    return {"kind": "Service", "namespace": namespace, "name": rule.service, "port": rule.port}
