"""Whether a Deployment is rolled out: the rules of `kubectl rollout status`, and the exceptions."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.observe.component import Rollout, rollout_of
from tests.support.builders import a_child, a_deployment

COMPLETE = {
    "one pod": a_deployment(),
    "three pods": a_deployment(replicas=3, updated=3, total=3, available=3),
    "an older generation than the one observed": a_deployment(generation=1, observed_generation=2),
    "no pods wanted and one still there": a_deployment(replicas=0, updated=0, total=1, available=1),
    "no pods wanted, which the controller has not seen": a_deployment(replicas=0, generation=2, observed_generation=1),
    "one of four pods lost after the roll-out": a_deployment(replicas=4, updated=4, total=4, available=3),
}

INCOMPLETE = {
    "the controller has not seen the new generation": a_deployment(generation=2, observed_generation=1),
    "too few pods are updated": a_deployment(
        replicas=3, updated=2, total=2, available=2, progressing="ReplicaSetUpdated"
    ),
    "older pods are still there": a_deployment(updated=1, total=2, available=2, progressing="ReplicaSetUpdated"),
    "the updated pod is not available": a_deployment(available=0, progressing="ReplicaSetUpdated"),
    "a pod of three is not available, and they never were all": a_deployment(
        replicas=3, updated=3, total=3, available=2, progressing="ReplicaSetUpdated"
    ),
    "the only pod was lost after the roll-out": a_deployment(available=0),
    "there is no status yet": a_child("Deployment", metadata={"name": "x", "generation": 1}),
}


@pytest.mark.parametrize("deployment", COMPLETE.values(), ids=COMPLETE.keys())
def test_a_rollout_is_complete_with(deployment: dict[str, Any]) -> None:
    assert rollout_of(deployment).complete


@pytest.mark.parametrize("deployment", INCOMPLETE.values(), ids=INCOMPLETE.keys())
def test_a_rollout_is_not_complete_while(deployment: dict[str, Any]) -> None:
    assert not rollout_of(deployment).complete


def test_a_rollout_is_complete_while_an_autoscaler_adds_pods_above_its_minimum() -> None:
    adding = a_deployment(replicas=4, updated=4, total=4, available=1, enough=False)

    assert not rollout_of(adding).complete
    assert rollout_of(adding, 1).complete
    assert not rollout_of(adding, 2).complete


def test_a_rollout_with_an_autoscaler_is_not_complete_while_older_pods_are_there() -> None:
    assert not rollout_of(a_deployment(replicas=4, updated=2, total=5, available=4), 1).complete


@pytest.mark.parametrize("minimum", [0, 1])
def test_a_rollout_with_an_autoscaler_is_not_complete_without_an_available_pod(minimum: int) -> None:
    assert not rollout_of(a_deployment(replicas=2, updated=2, total=2, available=0), minimum).complete


def test_a_deployment_scaled_to_zero_is_complete_and_its_message_says_so() -> None:
    deployment = a_deployment(replicas=0, updated=0, total=0, available=0)

    assert rollout_of(deployment) == Rollout(
        complete=True, serving=0, message="scaled to zero: no pod serves requests until it is scaled up", finished=True
    )


def test_a_rollout_counts_pods() -> None:
    deployment = a_deployment(replicas=3, updated=2, total=4, available=1, progressing="ReplicaSetUpdated")

    assert rollout_of(deployment) == Rollout(complete=False, serving=1, message="2 of 3 pods updated, 1 available")


def test_a_rollout_that_was_finished_stays_so_when_its_pods_are_lost() -> None:
    assert rollout_of(a_deployment(available=0)) == Rollout(
        complete=False, serving=0, message="1 of 1 pods updated, 0 available", finished=True
    )


def test_figures_that_the_api_leaves_out_are_zero() -> None:
    deployment = {**a_deployment(), "status": {"observedGeneration": 1}}

    assert rollout_of(deployment) == Rollout(complete=False, serving=0, message="0 of 1 pods updated, 0 available")


def test_no_deployment_is_no_rollout() -> None:
    assert rollout_of(None) == Rollout(complete=False, serving=0, message="the Deployment does not exist yet")


def test_a_deployment_that_may_make_no_pods_says_why() -> None:
    refused = {"type": "ReplicaFailure", "status": "True", "message": 'pods "x" is forbidden: exceeded quota'}
    deployment = a_deployment(updated=0, total=0, available=0, progressing="ReplicaSetUpdated", conditions=[refused])

    assert rollout_of(deployment).refusal == 'pods "x" is forbidden: exceeded quota'


def test_a_refusal_that_is_over_is_none() -> None:
    assert rollout_of(a_deployment(conditions=[{"type": "ReplicaFailure", "status": "False"}])).refusal is None


def test_a_rollout_that_has_not_moved_for_too_long_is_stuck() -> None:
    deployment = a_deployment(available=0, progressing="ProgressDeadlineExceeded")

    assert rollout_of(deployment) == Rollout(
        complete=False, serving=0, message="1 of 1 pods updated, 0 available", stuck=True
    )


def test_a_rollout_that_was_stuck_is_not_once_there_is_a_newer_spec() -> None:
    deployment = a_deployment(generation=2, observed_generation=1, available=0, progressing="ProgressDeadlineExceeded")

    assert not rollout_of(deployment).stuck
