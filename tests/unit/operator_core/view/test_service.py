"""What is seen of a service says the same as its conditions, whatever state it is in."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from isvc.limits import SEEN_ITEMS, SEEN_PODS
from isvc.view.json_shape import as_json
from isvc.view.service import view_of
from isvc.view.source import Related
from isvc.view.values import (
    ComponentView,
    ContainerState,
    ContainerView,
    DownloadProgress,
    Failure,
    HealthStatus,
    Hop,
    PodView,
    Purpose,
    RuntimeView,
    ServiceView,
)
from isvc_operator.limits import MESSAGE_BYTES
from isvc_operator.observe.component import explain
from isvc_operator.observe.pods import PodFailure
from tests.support.builders import (
    EARLIER,
    NOW,
    a_container,
    a_crashed_pod,
    a_deployment,
    a_pod,
    a_ready_pod,
    a_service_body,
    an_initializer,
    running,
)
from tests.support.failing_pods import FAILING_PODS, POD
from tests.support.related_objects import a_problem_of, a_related, an_event

LOADING_LINE = "2026-01-01T12:00:00Z  43 % of 1.2 GiB (35.0 MiB/s, 20 s left)"


def ready_condition(service: ServiceView) -> tuple[str, str]:
    found = next(item for item in service.conditions if item.type == "Ready")
    return found.reason, found.message


def test_a_service_that_serves() -> None:
    service = view_of(a_related())

    assert replace(service, conditions=(), history=()) == ServiceView(
        namespace="models",
        name="torchserve",
        health=HealthStatus.READY,
        created_at=EARLIER,
        generation=1,
        observed_generation=1,
        url="http://torchserve.models.example.com",
        runtime=RuntimeView(
            name="kserve-torchserve",
            cluster_wide=True,
            why="the only runtime of the cluster that serves model format 'pytorch' with protocol v1",
        ),
        components=[
            ComponentView(
                kind="predictor",
                name="torchserve-predictor",
                health=HealthStatus.READY,
                wanted=1,
                updated=1,
                available=1,
                traffic=100,
                url="http://torchserve-predictor.models.example.com",
                pods=[
                    PodView(
                        name=POD,
                        health=HealthStatus.READY,
                        created_at=EARLIER,
                        node="node-1",
                        containers=[
                            ContainerView(
                                name="storage-initializer",
                                purpose=Purpose.STORAGE,
                                state=ContainerState.TERMINATED,
                                reason="Completed",
                                exit_code=0,
                            ),
                            ContainerView(
                                name="kserve-container",
                                purpose=Purpose.SERVER,
                                state=ContainerState.RUNNING,
                                started_at=EARLIER,
                            ),
                        ],
                    )
                ],
            )
        ],
        request_path=[
            Hop(name="torchserve.models.example.com", kind="Ingress", target="torchserve-predictor"),
            Hop(name="torchserve-predictor", kind="predictor"),
        ],
    )


def test_a_model_that_is_copied_shows_its_progress() -> None:
    pod = a_pod(initializer=an_initializer(running()))

    service = view_of(a_related(pod, logs={(POD, "storage-initializer"): LOADING_LINE}))

    component, seen = service.components[0], service.components[0].pods[0]
    assert (service.health, service.stage) == (HealthStatus.STARTING, "LoadingModel")
    assert (component.health, component.stage, component.message) == (HealthStatus.STARTING, *ready_condition(service))
    assert (seen.stage, seen.progress) == (
        "LoadingModel",
        DownloadProgress(percent=43, size="1.2 GiB", rate="35.0 MiB/s", seconds_left=20),
    )


@pytest.mark.parametrize(("pod", "failure"), FAILING_PODS.values(), ids=FAILING_PODS.keys())
def test_a_failing_pod_is_seen_with_the_words_of_the_condition(pod: dict[str, Any], failure: PodFailure) -> None:
    logs = {(POD, failure.container or ""): "first line\nlast line"} if failure.has_log else {}

    service = view_of(a_related(pod, logs=logs))

    found = service.failure
    assert found is not None
    assert (found.reason, found.cause, found.location, found.exit_code) == (
        failure.reason,
        failure.cause,
        failure.location,
        failure.exit_code,
    )
    assert failure.fix in found.fix
    assert found.fix
    assert found.log == ("first line\nlast line" if failure.has_log else "")
    assert ready_condition(service) == (failure.reason, explain(failure, found.log))
    assert service.health is service.components[0].health is service.components[0].pods[0].health is HealthStatus.FAILED
    assert service.components[0].failure == service.components[0].pods[0].failure == found


def test_a_pod_that_has_failed_since_the_last_status_is_seen() -> None:
    related = replace(a_related(a_pod(initializer=an_initializer(running()))), pods=[a_crashed_pod()])

    service = view_of(related)

    assert (service.stage, service.health) == ("LoadingModel", HealthStatus.FAILED)
    assert service.failure is not None
    assert service.failure.reason == "ServerFailed"


def test_a_volume_that_is_not_mounted_is_seen_by_its_events() -> None:
    message = 'MountVolume.SetUp failed for volume "keys" : secret "keys" not found'

    service = view_of(a_related(a_pod(), events=[an_event("FailedMount", message, type_="Warning")]))

    assert service.failure == Failure(
        reason="VolumeNotMounted",
        cause=message,
        fix="create the Secret keys in the service's namespace",
        location=f"pod {POD}",
    )


def test_a_spec_that_cannot_be_served_is_seen_as_in_the_condition() -> None:
    message = "no runtime serves model format 'pytroch' with protocol v1"

    service = view_of(a_problem_of("NoSupportingRuntime", message))

    assert service.failure == Failure(
        reason="NoSupportingRuntime",
        cause=message,
        fix="correct modelFormat.name or protocolVersion, or install a runtime that serves them",
    )
    assert service.components[0].failure == service.failure


def test_the_pods_of_the_spec_before_are_seen_as_they_are() -> None:
    serving, problem = a_related(), a_problem_of("NoSupportingRuntime", "no runtime serves it")

    service = view_of(replace(serving, service=problem.service))

    component = service.components[0]
    assert (component.health, component.pods[0].health) == (HealthStatus.FAILED, HealthStatus.READY)


def test_a_quota_is_seen_as_in_the_condition() -> None:
    refusal = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: pods"}
    deployment = a_deployment(updated=0, total=0, available=0, conditions=[refusal])

    service = view_of(replace(a_related(a_pod(), deployment=deployment), pods=[]))

    assert service.failure is not None
    assert (service.failure.reason, service.failure.cause) == ("PodsRefused", "exceeded quota: pods")


@pytest.mark.parametrize(
    ("body", "health"),
    [
        (a_service_body(), HealthStatus.STARTING),
        (a_service_body(status={"conditions": [{"type": "Stopped", "status": "True"}]}), HealthStatus.STOPPED),
    ],
)
def test_a_service_without_pods_is(body: dict[str, Any], health: HealthStatus) -> None:
    service = view_of(Related(service=body))

    assert (service.health, service.components[0].health) == (health, health)


def test_a_service_that_is_deleted_is_ending() -> None:
    related = a_related()
    metadata = {**related.service["metadata"], "deletionTimestamp": NOW}

    service = view_of(replace(related, service={**related.service, "metadata": metadata}))

    assert (service.health, service.failure) == (HealthStatus.TERMINATING, None)


def test_pods_of_an_older_template_come_last_and_are_not_current() -> None:
    old = a_ready_pod("old", template="0", created="2026-01-01T09:00:00Z")
    leaving = a_ready_pod("leaving", template="0", created="2026-01-01T10:00:00Z", deleted=NOW)
    new = a_pod("new", template="1", initializer=an_initializer(), containers=[a_container()])

    pods = view_of(a_related(old, leaving, new)).components[0].pods

    assert [(pod.name, pod.current, pod.health) for pod in pods] == [
        ("new", True, HealthStatus.STARTING),
        ("leaving", False, HealthStatus.TERMINATING),
        ("old", False, HealthStatus.READY),
    ]


def test_a_predictor_that_is_being_replaced_is_seen_beside_the_new_one() -> None:
    related = a_related()
    spec = {"predictor": {**related.service["spec"]["predictor"], "name": "two"}}

    service = view_of(replace(related, service={**related.service, "spec": spec}))

    assert [(item.name, item.traffic, len(item.pods)) for item in service.components] == [
        ("torchserve-two-predictor", None, 0),
        ("torchserve-predictor", 100, 1),
    ]


def test_what_is_seen_is_json() -> None:
    shown = as_json(view_of(a_related(a_crashed_pod())))

    assert json.loads(json.dumps(shown)) == shown
    assert shown["failure"]["exitCode"] == 1
    assert shown["components"][0]["pods"][0]["containers"][1]["state"] == "Terminated"


# --- whatever the objects are ------------------------------------------------------------------------

_ODD: tuple[Any, ...] = (None, 0, -1, 2**80, True, "", "x", "\x1b[31m\n", "\ud800", [], [None], {}, {"a": {}}, 1.5)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container in a JSON value with each of its keys or indexes."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from places(item)


def test_no_object_is_too_odd_to_be_seen() -> None:
    event = an_event("FailedMount", 'secret "keys" not found', type_="Warning")
    wholes = [a_related(events=[event]), a_related(a_crashed_pod(), events=[event]), a_related(a_pod(), events=[event])]
    chance = random.Random(0)
    for _ in range(1000):
        whole = chance.choice(wholes)
        parts: dict[str, Any] = copy.deepcopy(
            {
                "service": whole.service,
                "children": [*whole.children],
                "pods": [*whole.pods],
                "events": [*whole.events],
                "runtimes": [*whole.runtimes],
            }
        )
        for _ in range(chance.randrange(1, 4)):
            container, key = chance.choice([item for item in places(parts) if item[0] is not parts])
            container[key] = chance.choice(_ODD)
        json.dumps(as_json(view_of(Related(**parts, logs=whole.logs))))


def test_only_so_many_pods_of_a_component_are_seen() -> None:
    pods = [a_ready_pod(f"pod-{number}") for number in range(SEEN_PODS + 1)]

    assert len(view_of(a_related(*pods)).components[0].pods) == SEEN_PODS


def test_only_so_many_items_of_a_list_are_seen_and_so_much_of_a_text() -> None:
    condition = {"type": "Odd", "status": "True", "message": "x" * 2 * MESSAGE_BYTES}
    body = a_service_body(status={"conditions": [condition] * (SEEN_ITEMS + 1)})

    service = view_of(Related(service=body))

    assert len(service.conditions) == SEEN_ITEMS
    assert len(service.conditions[0].message.encode()) == MESSAGE_BYTES
