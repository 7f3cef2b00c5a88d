"""Builds the manifests of all children of a service. Pure."""

from __future__ import annotations

from typing import Any

from isvc_operator.api.quantity import fraction_as_text, quantity
from isvc_operator.config import OperatorConfig
from isvc_operator.render.autoscaler import build_autoscaler
from isvc_operator.render.deployment import build_deployment
from isvc_operator.render.disruption_budget import build_disruption_budget
from isvc_operator.render.gateway_routes import build_routes
from isvc_operator.render.ingress import build_ingresses
from isvc_operator.render.network_policy import build_network_policy
from isvc_operator.render.service import build_service
from isvc_operator.resolve.service import Resolved

_LISTS = (list, tuple)


def render(resolved: Resolved, config: OperatorConfig) -> list[dict[str, Any]]:
    """Return the children of a service: those of each component, Deployment first, then its Ingress or HTTPRoutes."""
    children: list[dict[str, Any] | None] = []
    for component in resolved.components:
        children.append(build_deployment(resolved, component, config))
        children.append(build_service(resolved, component, config.service))
        children.append(build_autoscaler(resolved, component))
        children.append(build_disruption_budget(resolved, component, config))
        children.append(build_network_policy(resolved, component, config.network_policy))
    build = build_routes if config.ingress.enable_gateway_api else build_ingresses
    children += build(resolved, config.ingress)
    return [_without_fractions(child) for child in children if child is not None]


def _without_fractions(value: Any) -> Any:
    """Return a part of a child with 0.5 as ``500m``: a quantity is all that may have a fraction.

    Kubernetes stores it as this text, and CRDs of others take no fraction as a number.
    """
    if isinstance(value, dict):
        return {name: _without_fractions(item) for name, item in value.items()}
    if isinstance(value, _LISTS):
        return [_without_fractions(item) for item in value]
    is_fraction = isinstance(value, float) and quantity(value) is not None and not value.is_integer()
    return fraction_as_text(value) if is_fraction else value
