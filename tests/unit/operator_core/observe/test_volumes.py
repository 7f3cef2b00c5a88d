"""Why a pod's volumes are not mounted, from its Events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from isvc_operator.observe.pod_events import mount_failure
from isvc_operator.observe.pods import PodFailure
from tests.support.builders import a_pod

POD = "torchserve-predictor-1-a"


def a_pod_of(claim: str) -> dict[str, Any]:
    volumes = [{"name": "models", "emptyDir": {}}, {"name": "c", "persistentVolumeClaim": {"claimName": claim}}]
    pod = a_pod()
    return {**pod, "spec": {**pod["spec"], "volumes": volumes}}


def an_event(reason: str, message: str = "", second: int = 0) -> dict[str, Any]:
    return {"reason": reason, "message": message, "metadata": {}, "lastTimestamp": f"2026-01-01T12:00:{second:02}Z"}


ELSEWHERE = (
    'Multi-Attach error for volume "pvc-1" Volume is already exclusively attached to one node '
    "and can't be attached to another"
)
# What the controller says of it, by Kubernetes 1.34 and 1.37.
ATTACHED = (
    ELSEWHERE,
    'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) other-1, other-2',
    'Multi-Attach error for volume "pvc-1" Volume is already used by 1 pod(s) in different namespaces',
    'Waiting for detach for volume "pvc-1" Volume is already exclusively attached to one node, waiting on detach '
    "before it can be attached to another node",
    'Waiting for detach for volume "pvc-1" Volume is already used by pod(s) other-1',
)
TIMED_OUT = "Unable to attach or mount volumes: unmounted volumes=[c]: timed out waiting for the condition"
IN_USE = PodFailure(
    reason="ClaimInUse",
    pod=POD,
    cause=ELSEWHERE,
    fix="the claim leeway is ReadWriteOnce, so only one node at a time can mount it: stop the pod that uses it "
    "there, run both on one node, or use a ReadWriteMany claim",
    heals=True,
)


@pytest.mark.parametrize("cause", ATTACHED)
def test_a_claim_in_use_by_another_node_is_reported_with_the_fix(cause: str) -> None:
    found = mount_failure(a_pod_of("leeway"), [an_event("FailedAttachVolume", cause)])

    assert found == replace(IN_USE, cause=cause)


def test_the_kubelets_later_time_out_does_not_hide_the_cause() -> None:
    events = [an_event("FailedMount", TIMED_OUT, second=9), an_event("FailedAttachVolume", ELSEWHERE, second=1)]

    assert mount_failure(a_pod_of("leeway"), events) == IN_USE


@pytest.mark.parametrize(
    ("message", "fix", "heals"),
    [
        (
            'MountVolume.SetUp failed for volume "user-gcp-sa" : secret "google" not found',
            "create the Secret google in the service's namespace",
            False,
        ),
        (
            'MountVolume.SetUp failed for volume "cabundle-cert" : configmap "minios" not found',
            "create the ConfigMap minios in the service's namespace",
            False,
        ),
        (TIMED_OUT, "see kubectl describe pod, and the log of the volume's driver on that node", True),
    ],
)
def test_a_volume_that_cannot_be_mounted_is_reported_with_what_to_do(message: str, fix: str, heals: bool) -> None:
    assert mount_failure(a_pod(), [an_event("FailedMount", message)]) == PodFailure(
        "VolumeNotMounted", POD, message, fix, heals=heals
    )


@pytest.mark.parametrize("after", ["Pulling", "Pulled", "Created", "Started"])
def test_volumes_that_came_after_all_are_no_failure(after: str) -> None:
    events = [an_event("FailedMount", TIMED_OUT, second=1), an_event(after, second=2)]

    assert mount_failure(a_pod(), events) is None


def test_a_pod_that_is_only_slow_has_no_failure() -> None:
    assert mount_failure(a_pod(), [an_event("Scheduled")]) is None
    assert mount_failure(a_pod(), []) is None
