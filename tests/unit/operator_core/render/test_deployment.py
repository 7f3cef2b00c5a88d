"""The rules of the predictor's Deployment that no golden shows (docs/kserve.md)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import a_runtime, a_service, the_children

TCP_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def spec_of(container: dict[str, Any] | None = None, **service: Any) -> dict[str, Any]:
    spec: dict[str, Any] = the_children(a_service(**service), a_runtime(container=container))["Deployment"]["spec"]
    return spec


def containers_of(container: dict[str, Any] | None = None, **service: Any) -> dict[str, dict[str, Any]]:
    pod = spec_of(container, **service)["template"]["spec"]
    return {item["name"]: item for item in pod["containers"]}


def test_replicas_are_left_to_others_unless_the_user_sets_them() -> None:
    assert "replicas" not in spec_of()
    assert spec_of(predictor={"minReplicas": 2})["replicas"] == 2


@pytest.mark.parametrize(
    ("ports", "port"), [(None, 8080), ([], 8080), ([{"containerPort": 9000}, {"containerPort": 8080}], 9000)]
)
def test_a_server_without_a_probe_is_ready_when_its_first_port_answers(ports: Any, port: int) -> None:
    container = {} if ports is None else {"ports": ports}

    assert containers_of(container)["kserve-container"]["readinessProbe"] == {"tcpSocket": {"port": port}, **TCP_PROBE}


def test_a_probe_that_is_given_is_kept() -> None:
    probe = {"httpGet": {"path": "/ready", "port": 8080}}

    assert containers_of({"readinessProbe": probe})["kserve-container"]["readinessProbe"] == probe


def test_only_the_server_gets_a_probe_and_the_model() -> None:
    sidecar = containers_of(predictor={"containers": [{"name": "logs", "image": "l"}]})["logs"]

    assert sidecar == {
        "name": "logs",
        "image": "l",
        "env": [{"name": "INFERENCE_SERVICE_NAME", "value": "torchserve"}],
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def test_a_transformer_in_the_same_pod_reads_the_model_and_is_probed() -> None:
    beside = {"containers": [{"name": "transformer-container", "image": "t", "ports": [{"containerPort": 8081}]}]}

    container = containers_of(predictor=beside)["transformer-container"]

    assert container["volumeMounts"] == [
        {"name": "kserve-provision-location", "mountPath": "/mnt/models", "readOnly": True}
    ]
    assert container["readinessProbe"]["tcpSocket"] == {"port": 8081}


def test_pull_policy_and_termination_message_of_the_user_are_kept() -> None:
    own = {"imagePullPolicy": "Always", "terminationMessagePolicy": "File"}

    container = containers_of(own)["kserve-container"]

    assert {name: container[name] for name in own} == own


def test_a_mount_of_the_users_at_the_models_place_wins() -> None:
    mount = {"name": "mine", "mountPath": "/mnt/models"}

    assert containers_of(model={"volumeMounts": [mount]})["kserve-container"]["volumeMounts"] == [mount]


def test_the_server_comes_first() -> None:
    assert next(iter(containers_of(predictor={"containers": [{"name": "a", "image": "a"}]}))) == "kserve-container"


def test_a_model_without_storage_needs_no_initializer_and_no_volume() -> None:
    pod = spec_of(model={"storageUri": None})["template"]["spec"]

    assert "initContainers" not in pod
    assert "volumes" not in pod
    assert "volumeMounts" not in pod["containers"][0]


def test_a_users_own_storage_initializer_takes_the_place_of_ours() -> None:
    first, own = {"name": "first", "image": "f"}, {"name": "storage-initializer", "image": "mine"}

    pod = spec_of(predictor={"initContainers": [first, own]})["template"]["spec"]

    assert pod["initContainers"] == [first, own]
    assert [item["name"] for item in pod["volumes"]] == ["kserve-provision-location", "kserve-pvc-source"]
    assert [item["mountPath"] for item in pod["containers"][0]["volumeMounts"]] == ["/mnt/models"]


def test_other_init_containers_follow_ours() -> None:
    pod = spec_of(predictor={"initContainers": [{"name": "warm", "image": "w"}]})["template"]["spec"]

    assert [item["name"] for item in pod["initContainers"]] == ["storage-initializer", "warm"]


def test_rendering_twice_gives_the_same_and_changes_nothing_that_went_in() -> None:
    service, runtime = a_service(), a_runtime(container={"env": [{"name": "A", "value": "1"}]})

    first = the_children(service, runtime)

    assert the_children(service, runtime) == first
    assert runtime == a_runtime(container={"env": [{"name": "A", "value": "1"}]})


# --- claims that the server reads itself ------------------------------------------------------------------

DIRECT = {"storage.isvc-operator.io/pvc-mode": "direct"}
WRITABLE = {**DIRECT, "storage.kserve.io/readonly": "false"}


@pytest.mark.parametrize(("annotations", "read_only"), [(DIRECT, True), (WRITABLE, False)])
def test_a_mounted_claim_needs_no_initializer(annotations: dict[str, str], read_only: bool) -> None:
    pod = spec_of(model={"storageUri": "pvc://leeway/bert/1"}, annotations=annotations)["template"]["spec"]

    assert "initContainers" not in pod
    assert pod["volumes"] == [
        {"name": "kserve-pvc-source", "persistentVolumeClaim": {"claimName": "leeway", "readOnly": read_only}}
    ]
    assert pod["containers"][0]["volumeMounts"] == [
        {"name": "kserve-pvc-source", "mountPath": "/mnt/models", "subPath": "bert/1", "readOnly": read_only}
    ]


def test_a_whole_claim_is_mounted_without_a_sub_path() -> None:
    (mount,) = containers_of(annotations=DIRECT)["kserve-container"]["volumeMounts"]

    assert mount == {"name": "kserve-pvc-source", "mountPath": "/mnt/models", "readOnly": True}


def test_several_claims_and_a_bucket_have_their_places() -> None:
    uris = [
        {"uri": "s3://bucket/base", "mountPath": "/mnt/models/base"},
        {"uri": "pvc://one/a", "mountPath": "/mnt/models/a"},
        {"uri": "pvc://two", "mountPath": "/mnt/models/b"},
        {"uri": "pvc://one", "mountPath": "/mnt/models/c"},
    ]
    model = {"modelFormat": {"name": "pytorch"}}

    pod = spec_of(model=None, predictor={"model": model, "storageUris": uris})["template"]["spec"]

    (initializer,) = pod["initContainers"]
    assert initializer["args"] == [text for item in uris for text in item.values()]
    assert [item["name"] for item in pod["volumes"]] == [
        "kserve-provision-location",
        "kserve-pvc-source",
        "kserve-pvc-source-2",
    ]
    assert [(item["name"], item["mountPath"]) for item in initializer["volumeMounts"]] == [
        ("kserve-provision-location", "/mnt/models"),
        ("kserve-pvc-source", "/mnt/pvc/one"),
        ("kserve-pvc-source-2", "/mnt/pvc/two"),
    ]
