"""Objects of a laptop as an API server and its controllers would have them."""

from __future__ import annotations

from typing import Any

import pytest

from isvc.limits import LOCAL_REPLICAS
from isvc.run.stored import deployment_status, new_pod, replicas_of, requested_replicas, restarted, stored
from isvc_operator.manifests import Manifest
from isvc_operator.observe.component import rollout_of

START, LATER, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T01:00:00Z"


def deployment(replicas: int = 1, image: str = "s:1", before: Manifest | None = None, now: str = START) -> Manifest:
    template = {"metadata": {"labels": {"app": "first"}}, "spec": {"containers": [{"name": "s", "image": image}]}}
    spec: dict[str, Any] = {"replicas": replicas, "template": template, "progressDeadlineSeconds": 600}
    body = {"kind": "Deployment", "metadata": {"name": "first", "namespace": "default"}, "spec": spec}
    return stored(body, before, now)


def pod(of: Manifest, *, ready: bool, number: int = 1) -> Manifest:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {**new_pod(of, number, START), "status": {"conditions": conditions}}


def with_status(body: Manifest, *pods: Manifest, now: str) -> Manifest:
    return {**body, "status": deployment_status(body, pods, now)}


def test_a_change_of_the_spec_makes_a_generation_and_keeps_the_identity() -> None:
    first = with_status(deployment(), now=START)

    same, other = deployment(before=first, now=LATER), deployment(image="s:2", before=first, now=LATER)

    assert same["metadata"] == first["metadata"]
    assert other["metadata"] == {**first["metadata"], "generation": 2}
    assert other["status"] == first["status"]


def test_a_restart_is_another_template() -> None:
    first = deployment()

    again = restarted(first, LATER)

    labels = [new_pod(item, 1, START)["metadata"]["labels"]["pod-template-hash"] for item in (first, again)]
    assert len(set(labels)) == 2


@pytest.mark.parametrize(("requested", "pods"), [(0, 1), (1, 1), (3, 3), (10_000, LOCAL_REPLICAS)])
def test_a_laptop_runs_at_least_one_pod_and_not_too_many(requested: int, pods: int) -> None:
    assert replicas_of(requested) == pods


@pytest.mark.parametrize("field", ["minReplicas", "minReplicaCount"])
def test_without_a_number_the_minimum_of_the_autoscaler_counts(field: str) -> None:
    body = {"metadata": {"name": "first"}, "spec": {}}
    autoscaler = {"spec": {"scaleTargetRef": {"name": "first"}, field: 3}}

    assert requested_replicas(body, [autoscaler]) == 3
    assert requested_replicas(body, []) == 1
    assert requested_replicas({**body, "spec": {"replicas": 2}}, [autoscaler]) == 2


def test_a_rollout_is_complete_when_the_new_pods_are_ready_and_stays_it_when_they_fail_later() -> None:
    first = deployment(replicas=2)
    starting = with_status(first, pod(first, ready=True), pod(first, ready=False, number=2), now=START)
    ready = with_status(starting, pod(first, ready=True), pod(first, ready=True, number=2), now=LATER)
    failing = with_status(ready, pod(first, ready=True), pod(first, ready=False, number=2), now=LATE)

    assert [rollout_of(item).complete for item in (starting, ready, failing)] == [False, True, False]
    assert [rollout_of(item).finished for item in (starting, ready, failing)] == [False, True, True]
    assert not rollout_of(failing).stuck


def test_a_rollout_without_progress_within_its_deadline_is_stuck() -> None:
    first = deployment()
    starting = with_status(first, pod(first, ready=False), now=START)

    assert not rollout_of(with_status(starting, pod(first, ready=False), now=LATER)).stuck
    assert rollout_of(with_status(starting, pod(first, ready=False), now=LATE)).stuck


def test_old_pods_serve_while_the_new_ones_start() -> None:
    first = with_status(deployment(), pod(deployment(), ready=True), now=START)
    changed = deployment(image="s:2", before=first, now=LATER)

    rolling = rollout_of(with_status(changed, pod(first, ready=True), pod(changed, ready=False), now=LATER))

    assert (rolling.complete, rolling.sufficient, rolling.message) == (False, True, "1 of 1 pods updated, 1 available")
