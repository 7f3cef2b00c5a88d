"""What is read once for a decision, with a person's own rights."""

from __future__ import annotations

from isvc.source.inputs import list_objects
from isvc_operator.api.kinds import kind_named
from isvc_operator.kube.requests import ApiRequest


def test_what_carries_a_services_label_is_listed_in_pages() -> None:
    assert list_objects(kind_named("Pod"), "models", page="next", limit=50) == ApiRequest(
        method="GET",
        path="/api/v1/namespaces/models/pods",
        query=(("labelSelector", "serving.kserve.io/inferenceservice"), ("limit", "50"), ("continue", "next")),
        accept="application/json",
    )
