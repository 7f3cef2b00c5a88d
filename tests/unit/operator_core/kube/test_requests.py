"""Requests to the API server, as values."""

from __future__ import annotations

import pytest
from yarl import URL

from isvc_operator.kube import requests
from isvc_operator.kube.requests import ApiRequest, path_of
from tests.support.builders import a_child, a_service_body

PATHS = {
    "Deployment": "/apis/apps/v1/namespaces/models/deployments/x",
    "Service": "/api/v1/namespaces/models/services/x",
    "Ingress": "/apis/networking.k8s.io/v1/namespaces/models/ingresses/x",
    "Pod": "/api/v1/namespaces/models/pods/x",
    "ServiceAccount": "/api/v1/namespaces/models/serviceaccounts/x",
    "Secret": "/api/v1/namespaces/models/secrets/x",
    "ConfigMap": "/api/v1/namespaces/models/configmaps/x",
    "Event": "/api/v1/namespaces/models/events/x",
    "InferenceService": "/apis/serving.kserve.io/v1beta1/namespaces/models/inferenceservices/x",
    "ServingRuntime": "/apis/serving.kserve.io/v1alpha1/namespaces/models/servingruntimes/x",
}


@pytest.mark.parametrize(("kind", "path"), PATHS.items())
def test_the_path_of_an_object(kind: str, path: str) -> None:
    assert path_of(kind, "models", "x") == path


def test_the_path_of_a_collection() -> None:
    assert path_of("Event", "models") == "/api/v1/namespaces/models/events"


def test_the_path_of_a_collection_of_the_whole_cluster() -> None:
    assert path_of("ClusterServingRuntime", "") == "/apis/serving.kserve.io/v1alpha1/clusterservingruntimes"


def test_a_creation() -> None:
    child = a_child()

    assert requests.create(child) == ApiRequest(
        method="POST",
        path="/apis/apps/v1/namespaces/models/deployments",
        query=(("fieldManager", "isvc-operator"), ("fieldValidation", "Strict")),
        body=child,
    )


@pytest.mark.parametrize(("force", "text"), [(True, "true"), (False, "false")])
def test_server_side_apply(force: bool, text: str) -> None:
    child = a_child()

    assert requests.apply(child, force=force) == ApiRequest(
        method="PATCH",
        path="/apis/apps/v1/namespaces/models/deployments/torchserve-predictor",
        query=(("fieldManager", "isvc-operator"), ("force", text)),
        body=child,
        content_type="application/apply-patch+yaml",
    )


def test_a_deletion_spares_a_later_object_of_the_same_name() -> None:
    child = a_child(metadata={"name": "x", "namespace": "models", "uid": "u1"})

    assert requests.delete(child) == ApiRequest(
        method="DELETE",
        path="/apis/apps/v1/namespaces/models/deployments/x",
        body={
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": "u1"},
        },
    )


def test_metadata_is_patched_at_the_version_that_was_seen() -> None:
    child = a_child(metadata={"name": "x", "namespace": "models", "resourceVersion": "7"})

    assert requests.patch_metadata(child, {"finalizers": []}) == ApiRequest(
        method="PATCH",
        path="/apis/apps/v1/namespaces/models/deployments/x",
        query=(("fieldManager", "isvc-operator"),),
        body={"metadata": {"finalizers": [], "resourceVersion": "7"}},
        content_type="application/merge-patch+json",
    )


def test_a_status_is_patched_alone_and_at_the_version_that_was_seen() -> None:
    assert requests.patch_status(a_service_body(), {"url": None}) == ApiRequest(
        method="PATCH",
        path="/apis/serving.kserve.io/v1beta1/namespaces/models/inferenceservices/torchserve/status",
        query=(("fieldManager", "isvc-operator"),),
        body={"status": {"url": None}, "metadata": {"resourceVersion": "1"}},
        content_type="application/merge-patch+json",
    )


def test_an_event_is_posted_to_its_namespace() -> None:
    event = {"metadata": {"namespace": "models"}, "reason": "R"}

    assert requests.create_event(event) == ApiRequest("POST", "/api/v1/namespaces/models/events", body=event)


@pytest.mark.parametrize(("previous", "text"), [(True, "true"), (False, "false")])
def test_the_last_lines_of_a_log(previous: bool, text: str) -> None:
    assert requests.pod_log("models", "p", "c", previous=previous, lines=10) == ApiRequest(
        method="GET",
        path="/api/v1/namespaces/models/pods/p/log",
        query=(("container", "c"), ("previous", text), ("tailLines", "10"), ("limitBytes", "65536")),
        reads_text=True,
    )


@pytest.mark.parametrize(
    ("namespace", "name", "path"),
    [
        ("a/../b", "x", "/api/v1/namespaces/a%2F..%2Fb/secrets/x"),
        ("team", "../pods/x?watch#y", "/api/v1/namespaces/team/secrets/..%2Fpods%2Fx%3Fwatch%23y"),
        ("team", "..", "/api/v1/namespaces/team/secrets/%252E%252E"),
        ("team", "http:bert:80", "/api/v1/namespaces/team/secrets/http:bert:80"),
    ],
)
def test_a_name_is_one_part_of_a_path_whatever_it_has(namespace: str, name: str, path: str) -> None:
    assert requests.get("Secret", namespace, name).path == path
    assert URL(f"https://api{path}").raw_path == path  # which aiohttp does not take apart
