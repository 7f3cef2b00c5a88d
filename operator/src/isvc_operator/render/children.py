"""Builds the manifests of all children of a service. Pure."""

from __future__ import annotations

from typing import Any

from isvc_operator.config import OperatorConfig
from isvc_operator.render.autoscaler import build_autoscaler
from isvc_operator.render.deployment import build_deployment
from isvc_operator.render.disruption_budget import build_disruption_budget
from isvc_operator.render.gateway_routes import build_routes
from isvc_operator.render.ingress import build_ingresses
from isvc_operator.render.network_policy import build_network_policy
from isvc_operator.render.service import build_service
from isvc_operator.resolve.service import Resolved


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
    return [*(child for child in children if child is not None), *build(resolved, config.ingress)]
