"""Transformers and explainers: how they are wired to the predictor, and where requests go."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.config import OperatorConfig, ServiceConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.component import Component
from isvc_operator.resolve.service import Resolved
from isvc_operator.resolve.storage.plan import StoragePlan, storage_source
from tests.support.builders import a_resolved, a_runtime, a_service

HOST = "torchserve-predictor.models"
HEADLESS = OperatorConfig(service=ServiceConfig(service_cluster_ip_none=True))
SPEAKS_ALL = a_runtime(protocols=["v1", "v2", "grpc-v2"])


def resolved(config: OperatorConfig | None = None, **fields: Any) -> Resolved:
    return a_resolved(a_service(**fields), SPEAKS_ALL, config)


def transformer_of(
    container: dict[str, Any] | None = None,
    *,
    config: OperatorConfig | None = None,
    transformer: dict[str, Any] | None = None,
    **fields: Any,
) -> Component:
    spec = {"transformer": {"containers": [{"image": "t:1", **(container or {})}], **(transformer or {})}}
    found = resolved(config, spec=spec, **fields).transformer
    assert found is not None
    return found


def args_of(*args: str, **fields: Any) -> list[str]:
    found: list[str] = transformer_of({"args": list(args)}, **fields).server["args"]
    return found


# --- flags ---------------------------------------------------------------------------------------------


def test_a_wrapper_gets_the_name_the_predictor_and_the_port() -> None:
    expected = ["--model_name", "torchserve", "--predictor_host", HOST, "--http_port", "8080"]
    assert args_of() == expected


def test_what_the_user_gives_stays_and_the_rest_follows() -> None:
    assert args_of("--model_name=mnist") == ["--model_name=mnist", "--predictor_host", HOST, "--http_port", "8080"]
    assert args_of("--predictor_host", "other.example.com") == [
        *["--predictor_host", "other.example.com", "--model_name", "torchserve", "--http_port", "8080"]
    ]


def test_a_longer_flag_is_another_flag() -> None:
    assert "--model_name" in args_of("--model_name_prefix=x")


def test_the_predictors_own_name_is_part_of_its_host() -> None:
    assert "torchserve-blue-predictor.models" in args_of(predictor={"name": "blue"})


def test_the_port_is_that_of_the_container_and_not_one_for_grpc() -> None:
    ports = [{"name": "grpc", "containerPort": 9001}, {"name": "http", "containerPort": 9000}]

    assert transformer_of({"ports": ports}).server["args"][-2:] == ["--http_port", "9000"]


@pytest.mark.parametrize("protocol", ["v2", "grpc-v2"])
def test_another_protocol_than_v1_is_passed_on(protocol: str) -> None:
    assert args_of(model={"protocolVersion": protocol})[-2:] == ["--predictor_protocol", protocol]


@pytest.mark.parametrize("flag", ["--predictor_protocol=v1", "--protocol=v1"])
def test_a_protocol_that_the_user_gives_stays(flag: str) -> None:
    assert args_of(flag, model={"protocolVersion": "v2"}) == [
        *[flag, "--model_name", "torchserve", "--predictor_host", HOST, "--http_port", "8080"]
    ]


def test_container_concurrency_is_the_number_of_workers() -> None:
    assert args_of(transformer={"containerConcurrency": 4})[-2:] == ["--workers", "4"]
    assert "--workers" not in args_of(transformer={"containerConcurrency": 0})


def test_the_timeout_is_that_of_its_requests() -> None:
    assert args_of(transformer={"timeout": 30})[-2:] == ["--predictor_request_timeout_seconds", "30"]
    assert "--predictor_request_timeout_seconds" not in args_of(transformer={"timeout": 0})
    assert args_of("--predictor_request_timeout_seconds=5", transformer={"timeout": 30})[-1] == "8080"


def test_the_protocol_of_a_predictor_of_own_containers_is_its_variable() -> None:
    server = {"image": "mine", "env": [{"name": "PROTOCOL", "value": "v2"}]}

    assert args_of(model=None, predictor={"containers": [server]})[-2:] == ["--predictor_protocol", "v2"]


def test_a_protocol_that_kserve_does_not_know_is_refused() -> None:
    server = {"image": "mine", "env": [{"name": "PROTOCOL", "value": "v3"}]}

    with pytest.raises(InvalidSpec, match=r"PROTOCOL of spec\.predictor is 'v3'; write one of v1, v2"):
        resolved(model=None, predictor={"containers": [server]})


@pytest.mark.parametrize(
    ("protocol", "host"), [("v1", f"{HOST}:8080"), ("grpc-v2", f"{HOST}:8081")], ids=["REST", "gRPC"]
)
def test_with_headless_services_the_port_of_the_server_is_part_of_the_host(protocol: str, host: str) -> None:
    ports = [{"name": "http", "containerPort": 8080}, {"name": "grpc", "containerPort": 8081}]

    assert host in args_of(config=HEADLESS, model={"protocolVersion": protocol, "ports": ports})


@pytest.mark.parametrize("value", ["true", "false"])
def test_it_waits_for_the_predictor_unless_the_user_says_otherwise(value: str) -> None:
    own = {} if value == "true" else {"env": [{"name": "WAIT_FOR_PREDICTOR", "value": value}]}

    assert {"name": "WAIT_FOR_PREDICTOR", "value": value} in transformer_of(own).server["env"]


# --- the rest of the component --------------------------------------------------------------------------


def test_labels_annotations_and_the_pod_are_the_transformers_own() -> None:
    own = {
        "labels": {"tier": "front"},
        "annotations": {"note": "mine"},
        "serviceAccountName": "loader",
        "minReplicas": 3,
        "deploymentStrategy": {"type": "Recreate"},
    }
    found = transformer_of(transformer=own, labels={"team": "a"}, annotations={"note": "service's", "modelFormat": "x"})

    assert (found.kind, found.name) == ("transformer", "torchserve-transformer")
    assert found.labels == {"team": "a", "tier": "front"}
    assert found.annotations == {"note": "mine"}
    assert found.pod == {
        "serviceAccountName": "loader",
        "containers": [],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }
    assert (found.scaling.replicas, found.strategy) == (3, {"type": "Recreate"})


def test_helpers_stay_beside_it() -> None:
    helper = {"name": "helper", "image": "h"}
    spec = {"transformer": {"containers": [{"image": "t"}, helper]}}
    found = resolved(spec=spec).transformer

    assert found is not None
    assert found.pod["containers"] == [helper]


def test_the_storage_that_its_variable_names_is_brought_to_it() -> None:
    found = transformer_of({"env": [{"name": "STORAGE_URI", "value": "pvc://words/en"}]})

    assert found.storage == StoragePlan(copied=(storage_source("pvc://words/en", "/mnt/models"),))
    assert {"name": "STORAGE_URI", "value": "/mnt/models"} in found.server["env"]


def test_so_is_that_of_storage_uris() -> None:
    found = transformer_of(transformer={"storageUris": [{"uri": "pvc://words", "mountPath": "/mnt/words"}]})

    assert found.storage == StoragePlan(copied=(storage_source("pvc://words", "/mnt/words"),), folder="/mnt/words")


def test_storage_named_twice_is_refused() -> None:
    env = [{"name": "STORAGE_URI", "value": "pvc://words"}]

    with pytest.raises(InvalidSpec, match="storageUri and storageUris are both given"):
        transformer_of({"env": env}, transformer={"storageUris": [{"uri": "pvc://words"}]})


def test_a_transformer_in_the_predictors_pod_gets_no_flags_and_the_requests() -> None:
    beside = {"name": "transformer-container", "image": "t", "ports": [{"containerPort": 8000}]}
    found = resolved(predictor={"containers": [beside]})

    assert found.transformer is None
    assert found.predictor.front["name"] == "transformer-container"
    assert "args" not in found.predictor.front


def test_and_shares_its_models_so_it_may_not_ask_for_others() -> None:
    env = [{"name": "STORAGE_URI", "value": "pvc://words"}]

    with pytest.raises(InvalidSpec, match="variable STORAGE_URI is set for transformer-container"):
        resolved(predictor={"containers": [{"name": "transformer-container", "image": "t", "env": env}]})


# --- where requests go -----------------------------------------------------------------------------------

WRAPPERS = {"transformer": {"containers": [{"image": "t"}]}, "explainer": {"containers": [{"image": "e"}]}}


def test_the_predictor_comes_first_of_the_components() -> None:
    assert [item.kind for item in resolved(spec=WRAPPERS).components] == ["predictor", "transformer", "explainer"]


def test_every_component_has_hosts_and_the_service_is_addressed_by_its_transformer() -> None:
    hosts = resolved(spec=WRAPPERS).hosts

    assert hosts.urls == {
        "predictor": "http://torchserve-predictor.models.example.com",
        "transformer": "http://torchserve-transformer.models.example.com",
        "explainer": "http://torchserve-explainer.models.example.com",
    }
    assert hosts.address == "http://torchserve-transformer.models.svc.cluster.local"


def test_without_a_transformer_it_is_addressed_by_its_predictor() -> None:
    found = resolved(HEADLESS, spec={"explainer": WRAPPERS["explainer"]})

    assert found.hosts.address == "http://torchserve-predictor.models.svc.cluster.local:8080"


@pytest.mark.parametrize("name", ["my model", "", "a/b", "a?b", "ü"])
def test_a_model_name_that_no_path_can_have_is_refused(name: str) -> None:
    container = {"image": "e", "args": ["--model_name", name]}
    with pytest.raises(InvalidSpec, match=r"^spec\.explainer: --model_name .* is a part of the path"):
        resolved(spec={"explainer": {"containers": [container]}})


def test_an_explainer_of_the_toolbox_is_left_out() -> None:
    assert resolved(spec={"explainer": {"art": {"type": "SquareAttack"}}}).explainer is None


def test_the_storage_of_any_component_refers_to_objects() -> None:
    remote = {"env": [{"name": "STORAGE_URI", "value": "s3://b/words"}], "image": "t"}

    assert not resolved(spec=WRAPPERS).refers_to_objects
    assert resolved(spec={"transformer": {"containers": [remote]}}).refers_to_objects
