"""Whether a Deployment is rolled out: the rules of `kubectl rollout status`, and the exceptions."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.observe.component import Rollout, rollout_of
from tests.support.builders import a_child, a_deployment

# A Deployment, the minimum of its autoscaler, and whether it is rolled out.
DEPLOYMENTS: dict[str, tuple[dict[str, Any], int | None, bool]] = {
    "one pod": (a_deployment(), None, True),
    "three pods": (a_deployment(replicas=3, updated=3, total=3, available=3), None, True),
    "an older generation than the one observed": (a_deployment(generation=1, observed_generation=2), None, True),
    "no pods wanted and one still there": (a_deployment(replicas=0, updated=0, total=1, available=1), None, True),
    "no pods wanted, which the controller has not seen": (
        a_deployment(replicas=0, generation=2, observed_generation=1), None, True
    ),
    "one of four pods lost after the roll-out": (
        a_deployment(replicas=4, updated=4, total=4, available=3), None, True
    ),
    "a new generation that the controller has not seen": (
        a_deployment(generation=2, observed_generation=1), None, False
    ),
    "too few updated pods": (
        a_deployment(replicas=3, updated=2, total=2, available=2, progressing="ReplicaSetUpdated"), None, False
    ),
    "older pods still there": (
        a_deployment(updated=1, total=2, available=2, progressing="ReplicaSetUpdated"), None, False
    ),
    "an updated pod that is not available": (a_deployment(available=0, progressing="ReplicaSetUpdated"), None, False),
    "two of three pods available, and never all": (
        a_deployment(replicas=3, updated=3, total=3, available=2, progressing="ReplicaSetUpdated"), None, False
    ),
    "the only pod lost after the roll-out": (a_deployment(available=0), None, False),
    "no status yet": (a_child("Deployment", metadata={"name": "x", "generation": 1}), None, False),
    "pods being added": (a_deployment(replicas=4, updated=4, total=4, available=1, enough=False), None, False),
    "pods being added above the minimum": (
        a_deployment(replicas=4, updated=4, total=4, available=1, enough=False), 1, True
    ),
    "pods being added up to the minimum": (
        a_deployment(replicas=4, updated=4, total=4, available=1, enough=False), 2, False
    ),
    "older pods beside the minimum": (a_deployment(replicas=4, updated=2, total=5, available=4), 1, False),
    "no available pod of the minimum": (a_deployment(replicas=2, updated=2, total=2, available=0), 1, False),
    "no available pod, and a minimum of none": (a_deployment(replicas=2, updated=2, total=2, available=0), 0, False),
}  # fmt: skip


@pytest.mark.parametrize(("deployment", "minimum", "complete"), DEPLOYMENTS.values(), ids=DEPLOYMENTS.keys())
def test_a_rollout_is_complete_or_not_with(deployment: dict[str, Any], minimum: int | None, complete: bool) -> None:
    assert rollout_of(deployment, minimum).complete is complete


REFUSED = {"type": "ReplicaFailure", "status": "True", "message": 'pods "x" is forbidden: exceeded quota'}
ROLLOUTS: dict[str, tuple[dict[str, Any] | None, Rollout]] = {
    "scaled to zero": (
        a_deployment(replicas=0, updated=0, total=0, available=0),
        Rollout(
            complete=True, serving=0, message="scaled to zero: no pod serves requests until it is scaled up",
            finished=True,
        ),
    ),
    "under way": (
        a_deployment(replicas=3, updated=2, total=4, available=1, progressing="ReplicaSetUpdated"),
        Rollout(complete=False, serving=1, message="2 of 3 pods updated, 1 available", sufficient=True),
    ),
    "finished, and its pods lost": (
        a_deployment(available=0),
        Rollout(complete=False, serving=0, message="1 of 1 pods updated, 0 available", finished=True),
    ),
    "figures that the API leaves out": (
        {**a_deployment(), "status": {"observedGeneration": 1}},
        Rollout(complete=False, serving=0, message="0 of 1 pods updated, 0 available"),
    ),
    "no Deployment": (None, Rollout(complete=False, serving=0, message="the Deployment does not exist yet")),
    "no pods allowed": (
        a_deployment(updated=0, total=0, available=0, progressing="ReplicaSetUpdated", conditions=[REFUSED]),
        Rollout(
            complete=False, serving=0, message="0 of 1 pods updated, 0 available",
            refusal='pods "x" is forbidden: exceeded quota',
        ),
    ),
    "pods allowed again": (
        a_deployment(conditions=[{**REFUSED, "status": "False"}]),
        Rollout(
            complete=True, serving=1, message="1 of 1 pods updated, 1 available", finished=True, sufficient=True
        ),
    ),
    "stuck": (
        a_deployment(available=0, progressing="ProgressDeadlineExceeded"),
        Rollout(complete=False, serving=0, message="1 of 1 pods updated, 0 available", stuck=True),
    ),
    "paused before its newest template": (
        a_deployment(updated=0, total=1, available=1, progressing="DeploymentPaused", paused=True),
        Rollout(
            complete=False, serving=1, message="0 of 1 pods updated, 1 available", sufficient=True,
            paused=(
                "Deployment torchserve-predictor is paused (spec.paused), so that its pods keep their template; "
                "kubectl rollout resume deployment torchserve-predictor --namespace=models"
            ),
        ),
    ),
    "paused after its newest template": (
        a_deployment(progressing="DeploymentPaused", paused=True),
        Rollout(complete=True, serving=1, message="1 of 1 pods updated, 1 available", sufficient=True),
    ),
    "paused, and its pods lost": (
        a_deployment(available=0, progressing="DeploymentPaused", paused=True),
        Rollout(complete=False, serving=0, message="1 of 1 pods updated, 0 available"),
    ),
    "stuck before there was a newer spec": (
        a_deployment(generation=2, observed_generation=1, available=0, progressing="ProgressDeadlineExceeded"),
        Rollout(complete=False, serving=0, message="1 of 1 pods updated, 0 available"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("deployment", "rollout"), ROLLOUTS.values(), ids=ROLLOUTS.keys())
def test_all_that_is_said_of(deployment: dict[str, Any] | None, rollout: Rollout) -> None:
    assert rollout_of(deployment) == rollout
