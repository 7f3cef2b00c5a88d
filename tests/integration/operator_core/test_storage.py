"""Credentials on a real API server: how they are found, what gets into the Deployment, and which objects are read."""

from __future__ import annotations

import json
from typing import Any

from isvc_operator.api.names import CA_BUNDLE_CONFIG_MAP
from tests.integration.operator_core.test_status import make_pod
from tests.support.apiserver import ApiServer
from tests.support.credentials import GCS_KEY, HTTP_HEADERS, a_secret, an_account, s3_annotations
from tests.support.namespace import Namespace
from tests.support.operator_process import OPERATOR, WATCHES
from tests.support.waiting import eventually

PREDICTOR = "torchserve-predictor"
MODEL = {"modelFormat": {"name": "pytorch"}}


def apply(namespace: Namespace, *objects: dict[str, Any]) -> None:
    """Apply objects of the builders, whose namespace is another one."""
    namespace.apply(*({**item, "metadata": {**item["metadata"], "namespace": namespace.name}} for item in objects))


def initializer(namespace: Namespace) -> dict[str, Any]:
    deployment = namespace.wait_for("deployment", PREDICTOR)
    (container,) = deployment["spec"]["template"]["spec"]["initContainers"]
    return dict(container)


def test_secrets_of_the_account_reach_the_pod_as_references(running_operator: None, namespace: Namespace) -> None:
    by_port = {**HTTP_HEADERS, "https-host": "127.0.0.1:8443"}
    apply(
        namespace,
        an_account("s3", "google", "web", "port", name="models"),
        a_secret("s3", annotations=s3_annotations(endpoint="minio:9000", usehttps="0")),
        a_secret("google", GCS_KEY),
        a_secret("web", HTTP_HEADERS),
        a_secret("port", by_port),
    )
    namespace.apply_story(model={**MODEL, "storageUri": "s3://models/bert"}, serviceAccountName="models")

    container = initializer(namespace)

    env = {item["name"]: item.get("valueFrom", {}).get("secretKeyRef") or item["value"] for item in container["env"]}
    assert {name: value for name, value in env.items() if not name.startswith("STORAGE_")} == {
        "AWS_ACCESS_KEY_ID": {"name": "s3", "key": "AWS_ACCESS_KEY_ID"},
        "AWS_SECRET_ACCESS_KEY": {"name": "s3", "key": "AWS_SECRET_ACCESS_KEY"},
        "S3_ENDPOINT": "minio:9000",
        "S3_USE_HTTPS": "0",
        "AWS_ENDPOINT_URL": "http://minio:9000",
        "GOOGLE_APPLICATION_CREDENTIALS": "/var/secrets/gcloud-application-credentials.json",
        "models.example.com-headers": {"name": "web", "key": "headers"},
        "127.0.0.1:8443-headers": {"name": "port", "key": "headers"},
    }
    deployment, service = namespace.find("deployment", PREDICTOR), namespace.find("inferenceservice", "torchserve")
    assert "the-secret" not in json.dumps([deployment, service])


def test_a_missing_secret_is_reported_and_creating_it_repairs_the_service(
    running_operator: None, namespace: Namespace
) -> None:
    apply(namespace, an_account("s3"))
    namespace.apply_story(model={**MODEL, "storageUri": "s3://models/bert"})
    condition = namespace.wait_for_condition("Ready", "False", "InvalidCredentials")
    assert condition["message"].startswith("secret s3, which service account default or an annotation names, does not")

    apply(namespace, a_secret("s3"))

    assert initializer(namespace)["args"] == ["s3://models/bert", "/mnt/models"]
    namespace.wait_for_condition("Ready", "Unknown")


def test_secrets_are_read_by_name_once_and_never_listed(
    running_operator: None, apiserver: ApiServer, namespace: Namespace, another_namespace: Namespace
) -> None:
    apply(namespace, an_account("s3"), a_secret("s3"), a_secret("of-somebody-else"))
    since = apiserver.position()
    namespace.apply_story(model={**MODEL, "storageUri": "s3://models/bert"})
    another_namespace.apply_story()
    initializer(namespace)
    initializer(another_namespace)
    namespace.kubectl("label", "inferenceservice", "torchserve", "touched=yes")
    eventually(
        lambda: (namespace.find("deployment", PREDICTOR) or {})["metadata"]["labels"].get("touched"),
        "the label has reached the Deployment",
    )

    by_name = ("secrets", "serviceaccounts", "configmaps")
    calls = [call for agent in (OPERATOR, WATCHES) for call in apiserver.calls(agent) if call.resource in by_name]
    # The one object of these that it writes is a copy of certificates, for services of other tests.
    certificates = [call for call in calls if call.resource == "configmaps" and call.verb in ("create", "patch")]
    assert {call.name for call in certificates if call.verb == "patch"} <= {CA_BUNDLE_CONFIG_MAP}
    assert {call.verb for call in calls if call not in certificates} == {"get"}
    own = [call for call in apiserver.calls(OPERATOR, since) if call.resource in by_name]
    assert [(call.resource, call.name) for call in own if call.namespace == namespace.name] == [
        ("serviceaccounts", "default"),
        ("secrets", "s3"),
    ]
    assert not [call for call in own if call.namespace == another_namespace.name]


def test_a_new_storage_container_serves_the_service_that_waits_for_it(
    running_operator: None, apiserver: ApiServer, namespace: Namespace
) -> None:
    namespace.apply_story(model={**MODEL, "storageUri": "custom://models/bert"})
    namespace.wait_for_condition("Ready", "False", "InvalidPredictorSpec")
    spec = {
        "container": {"name": "storage-initializer", "image": "registry.example/custom:1"},
        "supportedUriFormats": [{"prefix": "custom://"}],
    }
    container = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ClusterStorageContainer", "spec": spec}

    apiserver.kubectl("apply", "--filename=-", stdin=json.dumps({**container, "metadata": {"name": "custom"}}))

    assert initializer(namespace)["image"] == "registry.example/custom:1"
    apiserver.kubectl("delete", "clusterstoragecontainer", "custom")


def test_a_claim_in_use_by_another_node_is_reported_from_the_pods_events(
    running_operator: None, namespace: Namespace
) -> None:
    namespace.apply_story()
    namespace.wait_for("deployment", PREDICTOR)
    make_pod(namespace)
    pod = namespace.wait_for("pod", "torchserve-predictor-1")
    involved = {"kind": "Pod", "name": pod["metadata"]["name"], "namespace": namespace.name}
    namespace.apply(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "attach", "namespace": namespace.name},
            "involvedObject": {**involved, "uid": pod["metadata"]["uid"]},
            "type": "Warning",
            "reason": "FailedAttachVolume",
            "message": 'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) other',
            "lastTimestamp": "2026-01-01T12:00:00Z",
        }
    )
    bind(namespace, pod["metadata"]["name"])

    condition = namespace.wait_for_condition("Ready", "False", "ClaimInUse")

    assert "Volume is already used by pod(s) other; the claim" in condition["message"]


def bind(namespace: Namespace, pod: str) -> None:
    """Do what the scheduler does when it has found a node."""
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod, "namespace": namespace.name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
    }
    path = f"/api/v1/namespaces/{namespace.name}/pods/{pod}/binding"
    namespace.server.kubectl("create", f"--raw={path}", "--filename=-", stdin=json.dumps(binding))


def test_a_storage_container_with_unknown_fields_gets_an_event(
    running_operator: None, apiserver: ApiServer, namespace: Namespace
) -> None:
    container = {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ClusterStorageContainer",
        "metadata": {"name": namespace.name},
        "spec": {"container": {"name": "c"}, "supportedUriFormats": [{"prefix": "none://"}], "workloadTyp": "x"},
    }
    apiserver.kubectl("create", "--filename=-", stdin=json.dumps(container))

    def messages() -> list[str]:
        found = apiserver.send("GET", "/api/v1/namespaces/default/events")["items"]
        return [item["message"] for item in found if item["involvedObject"].get("name") == namespace.name]

    said = eventually(messages, "the Event is recorded")
    apiserver.kubectl("delete", "clusterstoragecontainer", namespace.name)
    assert said == ["Ignored: spec.workloadTyp (did you mean workloadType?)"]
