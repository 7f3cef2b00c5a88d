"""Who may connect to the pods of a service, as its annotation or the ConfigMap says. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.names import ANNOTATION_NETWORK_POLICY
from isvc_operator.config import NetworkAccess, NetworkPolicyConfig
from isvc_operator.resolve.components import specified_components


def unreached_parts(
    service: InferenceService, access: NetworkAccess, config: NetworkPolicyConfig, *, published: bool
) -> Iterator[str]:
    """Yield what of the NetworkPolicies has another effect than expected; ``published``: the service has hosts."""
    if access is not NetworkAccess.NONE and published and not config.names_ingress:
        yield (
            f"networkPolicy {access} (requests through an Ingress or a Gateway are refused as well: networkPolicy of "
            "the ConfigMap names neither ingressNamespaces nor ingressCidrs)"
        )
    for kind, component in specified_components(service.spec):
        if ANNOTATION_NETWORK_POLICY in (component.annotations or {}):
            yield f"annotation {ANNOTATION_NETWORK_POLICY} of spec.{kind} (write it in the metadata of the service)"
