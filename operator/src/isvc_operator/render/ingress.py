"""The Ingress: the rules for HTTP of all routes of a service, with the port 80 of its Services."""

from __future__ import annotations

from typing import Any

from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.config import IngressConfig
from isvc_operator.render.metadata import child_metadata
from isvc_operator.render.routes import Route, Rule, routes_of
from isvc_operator.resolve.component import SERVICE_PORT
from isvc_operator.resolve.placeholders import fill, values_of
from isvc_operator.resolve.service import Resolved


def build_ingress(resolved: Resolved, config: IngressConfig) -> dict[str, Any] | None:
    """Return the Ingress; None if the service has no routes."""
    routes = routes_of(resolved)
    if not routes:
        return None
    service = resolved.service.metadata
    labels = {LABEL_SERVICE: service.name}
    rules = [
        {"host": host, "http": {"paths": [_path(rule) for rule in _for_http(route)]}}
        for route in routes
        for host in route.hosts
    ]
    spec: dict[str, Any] = {"rules": rules}
    if config.ingress_class_name:
        spec["ingressClassName"] = config.ingress_class_name
    if config.tls_secret_name:
        secret = fill(config.tls_secret_name, values_of(service))
        spec["tls"] = [{"hosts": [rule["host"] for rule in rules], "secretName": secret}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": child_metadata(service, service.name, labels=labels, annotations=_annotations(resolved, config)),
        "spec": spec,
    }


def _annotations(resolved: Resolved, config: IngressConfig) -> dict[str, str]:
    """Return the administrator's annotations, with the service's allowed ones over them."""
    return {**config.annotations, **resolved.ingress_annotations.allowed}


def _for_http(route: Route) -> list[Rule]:
    """Return the rules, without those for gRPC beside others: most controllers serve one protocol for each host."""
    return [rule for rule in route.rules if not rule.grpc] or list(route.rules)


def _path(rule: Rule) -> dict[str, Any]:
    """Return the path of a rule. ingress-nginx accepts ':' and '.' only with the type of the exact ones."""
    backend = {"service": {"name": rule.service, "port": {"number": SERVICE_PORT}}}
    return {"path": rule.path, "pathType": "ImplementationSpecific" if rule.exact else "Prefix", "backend": backend}
