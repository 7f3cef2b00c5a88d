"""Turns a resolved service into manifests: every child, complete, in order. Pure."""

from __future__ import annotations

from typing import Any

from isvc_operator.config import OperatorConfig
from isvc_operator.render.deployment import build_deployment
from isvc_operator.render.ingress import build_ingress
from isvc_operator.render.service import build_service
from isvc_operator.resolve import Resolved


def render(resolved: Resolved, config: OperatorConfig) -> list[dict[str, Any]]:
    """The children of a service, in the order in which a reader would look at them."""
    children: list[dict[str, Any] | None] = []
    for component in resolved.components:
        children.append(build_deployment(resolved, component, config))
        children.append(build_service(resolved, component, config.service))
    children.append(build_ingress(resolved, config.ingress))
    return [child for child in children if child is not None]
