"""How far the rollout of a Deployment is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from isvc_operator.text import one_line

SCALED_TO_ZERO: Final = "scaled to zero: no pod serves requests until it is scaled up"


@dataclass(frozen=True)
class Rollout:
    """``refusal`` is why the Deployment cannot create pods at all (a quota, a policy).

    ``stuck``: there was no progress within the Deployment's deadline. ``finished``: its newest template was rolled out
    once, even if pods have failed since. ``sufficient``: as many pods are available as are desired, old ones included.
    """

    complete: bool
    serving: int
    message: str
    refusal: str | None = None
    stuck: bool = False
    finished: bool = False
    sufficient: bool = False


def rollout_of(deployment: Mapping[str, Any] | None, enough: int | None = None) -> Rollout:
    """Return how far the newest template is rolled out, by the rules of ``kubectl rollout status``.

    With ``enough`` pods, the minimum of its autoscaler, it does not wait for those that are being added for the load.
    One that is scaled to zero has nothing to wait for: not for its pods to end, nor for the controller to report it.
    """
    if deployment is None:
        return Rollout(complete=False, serving=0, message="the Deployment does not exist yet")
    status = deployment.get("status", {})
    wanted = deployment.get("spec", {}).get("replicas", 1)
    updated, total = status.get("updatedReplicas", 0), status.get("replicas", 0)
    available = status.get("availableReplicas", 0)
    observed = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    needed = wanted if enough is None else min(wanted, max(1, enough))
    settled = observed and updated >= needed and total <= updated
    finished = _condition(status, "Progressing").get("reason") == "NewReplicaSetAvailable"
    # With no more pods unavailable than its strategy allows it is still serving.
    tolerated = finished and _condition(status, "Available").get("status") == "True"
    serving = available > 0 and (available >= needed or tolerated)
    return Rollout(
        complete=wanted == 0 or (settled and serving),
        serving=available,
        message=f"{updated} of {wanted} pods updated, {available} available" if wanted else SCALED_TO_ZERO,
        refusal=_refusal(status),
        stuck=observed and _condition(status, "Progressing").get("reason") == "ProgressDeadlineExceeded",
        finished=finished,
        sufficient=available >= wanted > 0,
    )


def _refusal(status: Mapping[str, Any]) -> str | None:
    failure = _condition(status, "ReplicaFailure")
    return one_line(str(failure.get("message") or failure.get("reason"))) if failure.get("status") == "True" else None


def _condition(status: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    return next((item for item in status.get("conditions", ()) if item["type"] == type_), {})
