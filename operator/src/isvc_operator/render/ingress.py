"""The Ingress: every host name of the service and of its predictor leads to the predictor's Service."""

from __future__ import annotations

from typing import Any

from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.config import IngressConfig
from isvc_operator.render.metadata import child_metadata
from isvc_operator.render.service import PORT
from isvc_operator.resolve import Resolved
from isvc_operator.resolve.placeholders import fill, values_of


def build_ingress(resolved: Resolved, config: IngressConfig) -> dict[str, Any] | None:
    """The Ingress, or None where the service stays inside the cluster."""
    hosts = resolved.hosts
    if not hosts.external:
        return None
    service = resolved.service.metadata
    labels = {LABEL_SERVICE: service.name}
    names = (*hosts.service, *hosts.predictor)
    spec: dict[str, Any] = {"rules": [_rule(name, resolved.predictor.name) for name in names]}
    if config.ingress_class_name:
        spec["ingressClassName"] = config.ingress_class_name
    if config.tls_secret_name:
        secret = fill(config.tls_secret_name, values_of(service))
        spec["tls"] = [{"hosts": list(names), "secretName": secret}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": child_metadata(service, service.name, labels, _annotations(resolved, config)),
        "spec": spec,
    }


def _annotations(resolved: Resolved, config: IngressConfig) -> dict[str, str]:
    """The administrator's, and the service's own over them; those of runtime and predictor are about pods."""
    copied, own = resolved.predictor.annotations, resolved.service.metadata.annotations
    return {**config.annotations, **{name: own[name] for name in copied if name in own}}


def _rule(host: str, backend: str) -> dict[str, Any]:
    path = {
        "path": "/",
        "pathType": "Prefix",
        "backend": {"service": {"name": backend, "port": {"number": PORT}}},
    }
    return {"host": host, "http": {"paths": [path]}}
