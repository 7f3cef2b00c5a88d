"""The Ingress: it routes the service's hosts to the transformer or else the predictor, and each component's to itself.

Requests for explanations are routed to the explainer. An Ingress has no patterns, so the rule has one path, with the
name of the explainer's model.
"""

from __future__ import annotations

from typing import Any

from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.config import IngressConfig
from isvc_operator.render.metadata import child_metadata
from isvc_operator.resolve.component import SERVICE_PORT, Component
from isvc_operator.resolve.flags import flag_value
from isvc_operator.resolve.placeholders import fill, values_of
from isvc_operator.resolve.service import Resolved
from isvc_operator.resolve.transformer import MODEL_NAME


def build_ingress(resolved: Resolved, config: IngressConfig) -> dict[str, Any] | None:
    """Return the Ingress; None for a cluster-local service, or if annotations that restrict access would be missing."""
    hosts = resolved.hosts
    if not hosts.external or resolved.ingress_annotations.guards:
        return None
    service = resolved.service.metadata
    labels = {LABEL_SERVICE: service.name}
    paths = [*_explain(resolved.explainer), _all_to(resolved.transformer or resolved.predictor)]
    rules = [{"host": host, "http": {"paths": paths}} for host in hosts.service]
    for component in resolved.components:
        own = {"paths": [_all_to(component)]}
        rules += [{"host": host, "http": own} for host in hosts.components[component.kind]]
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


def _explain(explainer: Component | None) -> list[dict[str, Any]]:
    """Return the path of explanations. ingress-nginx accepts ':' and '.' only with this type, also a prefix match."""
    if explainer is None:
        return []
    path = f"/v1/models/{flag_value(explainer.server, MODEL_NAME)}:explain"
    return [{"path": path, "pathType": "ImplementationSpecific", "backend": _backend(explainer)}]


def _all_to(component: Component) -> dict[str, Any]:
    return {"path": "/", "pathType": "Prefix", "backend": _backend(component)}


def _backend(component: Component) -> dict[str, Any]:
    return {"service": {"name": component.name, "port": {"number": SERVICE_PORT}}}
