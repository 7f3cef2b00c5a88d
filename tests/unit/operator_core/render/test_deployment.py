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


def test_pull_policy_and_termination_message_of_the_user_are_kept() -> None:
    own = {"imagePullPolicy": "Always", "terminationMessagePolicy": "File"}

    container = containers_of(own)["kserve-container"]

    assert {name: container[name] for name in own} == own


def test_a_mount_of_the_users_at_the_models_place_wins() -> None:
    mount = {"name": "mine", "mountPath": "/mnt/models"}

    assert containers_of(model={"volumeMounts": [mount]})["kserve-container"]["volumeMounts"] == [mount]


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


def test_a_whole_claim_is_mounted_without_a_sub_path() -> None:
    (mount,) = containers_of(annotations=DIRECT)["kserve-container"]["volumeMounts"]

    assert mount == {"name": "kserve-pvc-source", "mountPath": "/mnt/models", "readOnly": True}
