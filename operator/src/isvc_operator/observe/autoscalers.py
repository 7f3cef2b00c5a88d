"""Autoscalers that do not work: the cluster has no metrics, or KEDA refuses a ScaledObject. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from isvc_operator.api.inference_service import Condition
from isvc_operator.api.kinds import SCALED_OBJECT
from isvc_operator.api.names import AUTOSCALER_PROBLEM
from isvc_operator.limits import LINE_BYTES
from isvc_operator.manifests import Manifest, condition_of, name_of
from isvc_operator.observe.conditions import condition
from isvc_operator.text import one_line

METRICS_SECONDS: Final = 120.0  # after a component is ready; until then there may be no metrics of its pods yet
_SCALED_TO_ZERO: Final = "ScalingDisabled"  # an HPA's own reason


def inactive(autoscaler: Manifest) -> Mapping[str, Any]:
    """Return the condition by which it says that it cannot set the number of pods; empty if it can."""
    found = condition_of(autoscaler, "Ready" if autoscaler["kind"] == SCALED_OBJECT else "ScalingActive")
    return found if found.get("status") == "False" and found.get("reason") != _SCALED_TO_ZERO else {}


def autoscaler_problem(
    autoscaler: Manifest | None, ready: Condition | None, now: str, *, is_told: bool
) -> list[Condition]:
    """Return the condition at ``now`` (RFC 3339). ``ready`` is the last one of the component.

    Pods that have just become ready have no metrics yet: unless it ``is_told`` already, an HPA gets time.
    """
    if autoscaler is None or not (said := inactive(autoscaler)):
        return []
    is_kedas = autoscaler["kind"] == SCALED_OBJECT
    since = (ready and ready.status == "True" and ready.last_transition_time) or now
    if not (is_kedas or is_told or since <= _before(now)):
        return []
    reason = "ScaledObjectNotReady" if is_kedas else "ScalingInactive"
    why = one_line(f"{said.get('reason')}: {said.get('message')}", LINE_BYTES)
    message = f"{autoscaler['kind']} {name_of(autoscaler)} does not set the number of pods: {why}; {_FIXES[reason]}"
    return [condition(AUTOSCALER_PROBLEM, True, reason, message)]


_FIXES: Final = {
    "ScaledObjectNotReady": "correct what KEDA names, or see its log",
    "ScalingInactive": "kubectl top pods tells whether the cluster has metrics; if it has none, install metrics-server",
}


def _before(now: str) -> str:
    earlier = datetime.fromisoformat(now) - timedelta(seconds=METRICS_SECONDS)
    return earlier.strftime("%Y-%m-%dT%H:%M:%SZ")
