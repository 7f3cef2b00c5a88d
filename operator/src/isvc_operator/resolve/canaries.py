"""Components for which a service requests a canary: a change of their pods is meant for a share of the callers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from isvc_operator.api.inference_service import InferenceServiceSpec
from isvc_operator.api.names import PREDICTOR
from isvc_operator.resolve.requested import specified_components

ROLL_OUT = "To roll a change out to all callers, remove spec.canary, and canaryTrafficPercent or set it to 100"
_ALL = 100  # per cent of the traffic


def canary_requests(spec: InferenceServiceSpec) -> Mapping[str, str]:
    """Return the kinds of these components, each with the fields that request the canary, for messages."""
    found: dict[str, list[str]] = {}
    for kind, field in canary_fields(spec):
        found.setdefault(kind, []).append(field)
    return {kind: " and ".join(fields) for kind, fields in found.items()}


def canary_fields(spec: InferenceServiceSpec) -> Iterator[tuple[str, str]]:
    """Yield each field that requests a canary, after the kind of its component."""
    if spec.canary:
        yield PREDICTOR, "spec.canary"
    for kind, component in specified_components(spec):
        percent = component.canary_traffic_percent
        if percent is not None and percent < _ALL:
            yield kind, f"spec.{kind}.canaryTrafficPercent: {percent}"
