"""The Ingress: the rules for HTTP of all routes of a service, with the port 80 of its Services.

A path on the host of all services needs an Ingress of its own: the annotations by which controllers remove the path
apply to a whole Ingress.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.config import IngressConfig, PathIngress
from isvc_operator.render.backend_tls import route_annotations
from isvc_operator.render.metadata import child_metadata
from isvc_operator.render.routes import PathRule, ServiceRoute, routes_of
from isvc_operator.resolve.placeholders import fill, values_of
from isvc_operator.resolve.service import Resolved

_NONE: Mapping[str, str] = {}


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
            paths = [_path_with_prefix(rule, own, values) for rule in _for_http(route) if not rule.exact]
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
    service = resolved.service.metadata
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": child_metadata(
            service,
            name,
            labels={LABEL_SERVICE: service.name},
            annotations={
                **route_annotations(resolved),
                **config.annotations,
                **resolved.ingress_annotations.allowed,
                **annotations,
            },
        ),
        "spec": spec,
    }


def _for_http(route: ServiceRoute) -> list[PathRule]:
    """Return the rules, without those for gRPC beside others: most controllers serve one protocol for each host."""
    return [rule for rule in route.rules if not rule.grpc] or list(route.rules)


def _path(rule: PathRule) -> dict[str, Any]:
    """Return the path of a rule. ingress-nginx accepts ':' and '.' only with the type of the exact ones."""
    return {
        "path": rule.path,
        "pathType": "ImplementationSpecific" if rule.exact else "Prefix",
        "backend": _backend(rule),
    }


def _path_with_prefix(rule: PathRule, own: PathIngress, values: Mapping[str, str]) -> dict[str, Any]:
    return {"path": fill(own.path, values), "pathType": own.path_type, "backend": _backend(rule)}


def _backend(rule: PathRule) -> dict[str, Any]:
    return {"service": {"name": rule.service, "port": {"number": rule.main_port}}}
