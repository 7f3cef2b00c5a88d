"""What is kept of the objects that watches report, and which services each of them concerns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from isvc.limits import SEEN_EVENTS, UNPLACED_EVENTS
from isvc.source.objects import WatchedObjects, kept
from isvc_operator.api.kinds import kind_named
from isvc_operator.kube.informer.watching import Collection
from isvc_operator.manifests import ServiceKey
from tests.support.builders import a_child, a_pod, a_runtime_body, a_service_body
from tests.support.related_objects import an_event

KEY = ServiceKey("models", "torchserve")
POD = "torchserve-predictor-1-a"
SERVICES = Collection(kind_named("InferenceService"))


def collected() -> tuple[WatchedObjects, list[ServiceKey]]:
    reported: list[ServiceKey] = []

    def report(keys: Iterable[ServiceKey]) -> None:
        reported.extend(keys)

    return WatchedObjects(report), reported


def versioned(body: dict[str, Any], version: int) -> dict[str, Any]:
    return {**body, "metadata": {"uid": "u", **body["metadata"], "resourceVersion": str(version)}}


def an_event_numbered(number: int, pod: str = POD) -> dict[str, Any]:
    event = an_event("BackOff", str(number), about=f"Pod/{pod}")
    return {**event, "metadata": {**event["metadata"], "uid": f"event-{number}-{pod}"}}


def test_each_object_is_found_by_its_service() -> None:
    objects, reported = collected()
    deployment, pod = versioned(a_child("Deployment"), 1), versioned(a_pod(), 1)
    for body in (a_service_body(), deployment, pod):
        objects.changed("ADDED", body)

    assert reported == [KEY] * 3
    assert objects.services() == [KEY]
    assert objects.service(KEY) == {
        **a_service_body(),
        "metadata": {**a_service_body()["metadata"], "managedFields": []},
    }
    assert (objects.children(KEY), objects.pods(KEY)) == ([deployment], [pod])


def test_a_runtime_concerns_the_services_that_may_use_it() -> None:
    objects, reported = collected()
    objects.changed("ADDED", a_service_body())
    objects.changed("ADDED", a_runtime_body("of-the-cluster"))
    objects.changed("ADDED", a_runtime_body("own", namespace="models"))
    objects.changed("ADDED", a_runtime_body("of-others", namespace="others"))

    assert reported == [KEY] * 3
    assert [item["metadata"]["name"] for item in objects.runtimes("models")] == ["own", "of-the-cluster"]


def test_what_a_new_list_lacks_is_gone() -> None:
    objects, reported = collected()
    one, two = versioned(a_service_body("one", uid="1"), 1), versioned(a_service_body("two", uid="2"), 9)
    objects.listed(SERVICES, [one, two], 5)
    reported.clear()

    objects.listed(SERVICES, [], 7)

    assert reported == [ServiceKey("models", "one")]
    assert objects.services() == [ServiceKey("models", "two")]


def test_an_older_version_changes_nothing() -> None:
    objects, _ = collected()
    objects.changed("ADDED", versioned(a_pod(phase="Running"), 8))
    objects.changed("MODIFIED", versioned(a_pod(phase="Pending"), 7))

    assert objects.pods(KEY)[0]["status"]["phase"] == "Running"


def test_a_pod_that_loses_the_label_is_no_longer_the_services() -> None:
    objects, reported = collected()
    pod = versioned(a_pod(), 1)
    objects.changed("ADDED", pod)
    reported.clear()
    objects.changed("MODIFIED", versioned({**pod, "metadata": {**pod["metadata"], "labels": {}}}, 2))

    assert (objects.pods(KEY), reported) == ([], [KEY])


def test_events_belong_to_the_service_and_to_its_pods_also_if_they_come_first() -> None:
    objects, reported = collected()
    first = an_event_numbered(1)
    objects.changed("ADDED", first)
    assert reported == []
    objects.changed("ADDED", a_service_body())
    objects.changed("ADDED", versioned(a_pod(), 1))
    again = {**first, "count": 7}
    objects.changed("MODIFIED", again)

    assert objects.events(KEY) == [kept(again)]
    objects.changed("DELETED", versioned(a_pod(), 2))
    assert objects.events(KEY) == []


@pytest.mark.parametrize("comes_first", [True, False])
def test_an_event_of_another_namespace_is_about_nothing_here(comes_first: bool) -> None:
    objects, _ = collected()
    event = an_event_numbered(1)
    foreign = {**event, "metadata": {**event["metadata"], "namespace": "another"}}
    placed = (a_service_body(), versioned(a_pod(), 1))
    for body in (foreign, *placed) if comes_first else (*placed, foreign):
        objects.changed("ADDED", body)

    assert objects.events(KEY) == []


def test_an_event_that_has_expired_is_still_known() -> None:
    objects, _ = collected()
    objects.changed("ADDED", a_service_body())
    objects.changed("ADDED", versioned(a_pod(), 1))
    objects.changed("ADDED", an_event_numbered(1))
    objects.changed("DELETED", an_event_numbered(1))
    objects.listed(Collection(kind_named("Event"), "", "involvedObject.kind=Pod"), [], 9)

    assert len(objects.events(KEY)) == 1


def test_only_the_last_events_of_a_pod_are_kept() -> None:
    objects, _ = collected()
    objects.changed("ADDED", a_service_body())
    objects.changed("ADDED", versioned(a_pod(), 1))
    for number in range(SEEN_EVENTS + 1):
        objects.changed("ADDED", an_event_numbered(number))

    assert [event["message"] for event in objects.events(KEY)] == [str(number) for number in range(1, SEEN_EVENTS + 1)]


def test_the_events_of_other_pods_are_forgotten() -> None:
    objects, _ = collected()
    objects.changed("ADDED", an_event_numbered(0))
    for number in range(UNPLACED_EVENTS):
        objects.changed("ADDED", an_event_numbered(number, f"other-{number}"))
    objects.changed("ADDED", a_service_body())
    objects.changed("ADDED", versioned(a_pod(), 1))

    assert objects.events(KEY) == []


def test_of_a_list_the_events_of_others_are_not_even_collected() -> None:
    objects, _ = collected()
    objects.changed("ADDED", versioned(a_pod(), 1))
    own, other = an_event_numbered(1), an_event_numbered(2, "other")

    assert [objects.kept_of_list(item) for item in (own, other)] == [kept(own), None]


def test_of_an_object_only_what_is_read_is_kept() -> None:
    fields = {
        "manager": "kubectl",
        "operation": "Apply",
        "time": "t",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {}},
    }
    service, pod, deployment = a_service_body(), a_pod(), a_child("Deployment")
    for body in (service, pod, deployment):
        body["metadata"]["managedFields"] = [fields]
    pod["spec"]["containers"] = [{"name": "kserve-container", "env": []}]

    assert kept(service)["metadata"]["managedFields"] == [{"manager": "kubectl", "operation": "Apply", "time": "t"}]
    assert "managedFields" not in kept(deployment)["metadata"]
    assert kept(pod)["spec"] == {"nodeName": "node-1"}
