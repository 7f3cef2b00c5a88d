"""What a service with an autoscaler waits for. The cluster has no metrics: the autoscaler acts on its minimum alone."""

from __future__ import annotations

from tests.support.breaking_services import a_breaking_service, events_on
from tests.support.namespace import Namespace
from tests.support.waiting import eventually

NAME = "scaled"
WITHIN = 120.0  # seconds


def available(namespace: Namespace) -> int:
    deployment = namespace.find("deployment", f"{NAME}-predictor") or {}
    return int(deployment["status"].get("availableReplicas", 0))


def test_a_raised_minimum_is_waited_for_and_a_step_of_the_autoscaler_is_not(namespace: Namespace) -> None:
    namespace.apply(a_breaking_service(NAME, minReplicas=1, maxReplicas=4))
    namespace.wait_for_condition("Ready", "True", service=NAME, within=WITHIN)

    namespace.apply(a_breaking_service(NAME, minReplicas=2, maxReplicas=4))
    namespace.kubectl("wait", "--for=condition=Ready", f"isvc/{NAME}", f"--timeout={WITHIN:.0f}s")

    assert available(namespace) == 2
    before = namespace.condition("Ready", NAME), events_on(namespace, NAME)

    namespace.kubectl("scale", f"deployment/{NAME}-predictor", "--replicas=4")
    eventually(lambda: available(namespace) == 4, "the new pods serve", WITHIN)

    assert (namespace.condition("Ready", NAME), events_on(namespace, NAME)) == before
    namespace.kubectl("delete", "isvc", NAME, "--wait=false")
