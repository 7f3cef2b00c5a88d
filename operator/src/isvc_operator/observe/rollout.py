"""Whether a Deployment has reached what was asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from isvc_operator.text import one_line

SCALED_TO_ZERO: Final = "scaled to zero: no pod answers until it is scaled up"


@dataclass(frozen=True)
class Rollout:
    """``refusal`` is what keeps the Deployment from making pods at all (a quota, a policy).

    ``stuck``: nothing has moved within the Deployment's progress deadline. ``finished``: its newest template was rolled
    out once, whatever has become of its pods.
    """

    complete: bool
    serving: int
    message: str
    refusal: str | None = None
    stuck: bool = False
    finished: bool = False


def rollout_of(deployment: Mapping[str, Any] | None) -> Rollout:
    """How far the newest template is rolled out, by the rule of ``kubectl rollout status``."""
    if deployment is None:
        return Rollout(complete=False, serving=0, message="the Deployment does not exist yet")
    status = deployment.get("status", {})
    wanted = deployment.get("spec", {}).get("replicas", 1)
    updated, total = status.get("updatedReplicas", 0), status.get("replicas", 0)
    available = status.get("availableReplicas", 0)
    seen = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    settled = seen and updated >= wanted and total <= updated
    finished = _condition(status, "Progressing").get("reason") == "NewReplicaSetAvailable"
    # One that has lost no more pods than its strategy allows still serves.
    enough = finished and _condition(status, "Available").get("status") == "True"
    serving = available > 0 and (available >= wanted or enough)
    return Rollout(
        complete=settled and (wanted == 0 or serving),
        serving=available,
        message=f"{updated} of {wanted} pods updated, {available} available" if wanted else SCALED_TO_ZERO,
        refusal=_refusal(status),
        stuck=seen and _condition(status, "Progressing").get("reason") == "ProgressDeadlineExceeded",
        finished=finished,
    )


def _refusal(status: Mapping[str, Any]) -> str | None:
    failure = _condition(status, "ReplicaFailure")
    return one_line(str(failure.get("message") or failure.get("reason"))) if failure.get("status") == "True" else None


def _condition(status: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    return next((item for item in status.get("conditions", ()) if item["type"] == type_), {})
