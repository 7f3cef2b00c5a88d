"""The predictor: runtime, service and configuration in one."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.component import Component
from isvc_operator.resolve.storage.plan import StoragePlan, storage_source
from tests.support.builders import a_resolved, a_runtime, a_service

TOLERATION = {"key": "gpu", "operator": "Exists"}
OTHER_TOLERATION = {"key": "spot", "operator": "Exists"}


def predictor_of(
    runtime: ServingRuntime | None = None, config: OperatorConfig | None = None, **service: Any
) -> Component:
    return a_resolved(a_service(**service), runtime, config).predictor


def env_of(predictor: Component) -> dict[str, Any]:
    return {item["name"]: item.get("value") for item in predictor.server["env"]}


SERVICE_NAME = [{"name": "INFERENCE_SERVICE_NAME", "value": "torchserve"}]


def test_the_storys_predictor() -> None:
    assert predictor_of() == Component(
        kind="predictor",
        name="torchserve-predictor",
        labels={"serviceEnvelope": "kserve"},
        annotations={},
        server={
            "name": "kserve-container",
            "image": "registry.example/torchserve:1.0",
            "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
            "env": [
                {"name": "INFERENCE_SERVICE_NAME", "value": "torchserve"},
                {"name": "PROTOCOL_VERSION", "value": "v1"},
            ],
        },
        pod={"containers": [], "automountServiceAccountToken": False, "enableServiceLinks": False},
        storage=StoragePlan(copied=(storage_source("pvc://leeway", "/mnt/models"),), layout="torchserve"),
        strategy=None,
    )


def test_a_long_timeout_is_that_of_the_servers_end() -> None:
    container = {"env": [{"name": "GRACE_PERIOD", "value": "20"}]}
    pod = {"terminationGracePeriodSeconds": 60}

    longer = predictor_of(a_runtime(container=container), predictor={"timeout": 300})
    users = predictor_of(a_runtime(container=container), predictor={"timeout": 300, **pod})
    not_read = predictor_of(predictor={"timeout": 300})

    assert (longer.pod["terminationGracePeriodSeconds"], env_of(longer)["GRACE_PERIOD"]) == (310, "300")
    assert (users.pod["terminationGracePeriodSeconds"], env_of(users)["GRACE_PERIOD"]) == (60, "50")
    assert not_read.pod["terminationGracePeriodSeconds"] == 310
    assert "GRACE_PERIOD" not in env_of(not_read)


def test_the_predictors_name_stands_between_the_services_and_the_components() -> None:
    assert predictor_of(predictor={"name": "blue"}).name == "torchserve-blue-predictor"


def test_an_older_framework_key_makes_the_same_predictor() -> None:
    model = {"storageUri": "pvc://leeway", "protocolVersion": "v1"}

    assert predictor_of(model=None, predictor={"pytorch": model}) == predictor_of()


# --- labels and annotations ---------------------------------------------------------------------------


def test_labels_of_the_predictor_win_over_the_services_and_these_over_the_runtimes() -> None:
    runtime = a_runtime("mine", labels={"a": "runtime", "b": "runtime", "c": "runtime"}, server_type=None)

    labels = predictor_of(
        runtime, labels={"b": "service", "c": "service"}, predictor={"labels": {"c": "predictor"}}
    ).labels

    assert labels == {"a": "runtime", "b": "service", "c": "predictor"}


def test_annotations_of_the_predictor_win_over_the_services_and_these_over_the_runtimes() -> None:
    runtime = a_runtime(annotations={"a": "runtime", "b": "runtime", "c": "runtime"})

    annotations = predictor_of(
        runtime, annotations={"b": "service", "c": "service"}, predictor={"annotations": {"c": "predictor"}}
    ).annotations

    assert annotations == {"a": "runtime", "b": "service", "c": "predictor"}


def test_annotations_that_belong_to_the_service_alone_are_not_copied() -> None:
    config = parse_config({"inferenceService": '{"serviceAnnotationDisallowedList": ["secret.example/note"]}'})
    never = {
        "autoscaling.knative.dev/min-scale": "1",
        "autoscaling.knative.dev/max-scale": "2",
        "internal.serving.kserve.io/storage-initializer-sourceuri": "pvc://leeway",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "modelFormat": "pytorch",
        "secret.example/note": "x",
    }

    assert predictor_of(config=config, annotations={**never, "kept": "yes"}).annotations == {"kept": "yes"}


@pytest.mark.parametrize(
    ("protocol", "envelope"), [("v1", "kserve"), ("v2", "kservev2"), ("grpc-v2", "kservev2"), ("grpc-v1", "kserve")]
)
def test_torchserve_gets_the_protocol_by_label_and_environment(protocol: str, envelope: str) -> None:
    predictor = predictor_of(a_runtime(protocols=[]), model={"protocolVersion": protocol})

    assert predictor.labels == {"serviceEnvelope": envelope}
    assert env_of(predictor)["PROTOCOL_VERSION"] == protocol


def test_another_server_gets_only_its_services_name() -> None:
    predictor = predictor_of(a_runtime(server_type="sklearnserver"))

    assert predictor.labels == {}
    assert env_of(predictor) == {"INFERENCE_SERVICE_NAME": "torchserve"}


def test_the_users_envelope_label_wins() -> None:
    assert predictor_of(labels={"serviceEnvelope": "json"}).labels == {"serviceEnvelope": "json"}


def test_kserves_torchserve_runtime_reads_the_envelope_from_the_label() -> None:
    runtime = a_runtime(container={"env": [{"name": "TS_SERVICE_ENVELOPE", "value": "{{.Labels.serviceEnvelope}}"}]})

    assert env_of(predictor_of(runtime))["TS_SERVICE_ENVELOPE"] == "kserve"
    assert env_of(predictor_of(runtime, labels={"serviceEnvelope": "json"}))["TS_SERVICE_ENVELOPE"] == "json"


# --- the server's container ----------------------------------------------------------------------------


def test_placeholders_of_runtime_and_user_are_filled() -> None:
    runtime = a_runtime(container={"args": ["--model_name={{.Name}}"]})

    predictor = predictor_of(
        runtime, model={"args": ["--in={{.Namespace}}", "--tier={{.Labels.tier}}"]}, labels={"tier": "gold"}
    )

    assert predictor.server["args"] == ["--model_name=torchserve", "--in=models", "--tier=gold"]


def test_placeholders_of_containers_beside_the_server_are_filled() -> None:
    theirs = {"name": "transformer-container", "image": "t:1", "args": ["--model_name={{.Name}}"]}
    own = {"name": "side", "image": "s:1", "args": ['--team={{ index .Labels "example.com/team" }}']}

    predictor = predictor_of(
        a_runtime(sidecars=[theirs]), predictor={"containers": [own]}, labels={"example.com/team": "vision"}
    )

    assert [container["args"] for container in predictor.pod["containers"]] == [
        ["--model_name=torchserve"],
        ["--team=vision"],
    ]


def test_placeholders_of_init_containers_are_filled() -> None:
    first = {"name": "first", "image": "f:1", "args": ["--model={{.Name}}"]}

    assert predictor_of(predictor={"initContainers": [first]}).pod["initContainers"] == [
        {**first, "args": ["--model=torchserve"]}
    ]


@pytest.mark.parametrize("name", ["kserve-container", "transformer-container"])
def test_a_template_that_is_no_placeholder_is_refused_where_kserve_reads_templates(name: str) -> None:
    odd = {"args": ["{{ .Name | upper }}"]}
    runtime = a_runtime(container=odd) if name == "kserve-container" else a_runtime(sidecars=[{"name": name, **odd}])

    with pytest.raises(InvalidSpec) as caught:
        predictor_of(runtime)

    assert str(caught.value).startswith(f"args of container {name} contains {{{{ .Name | upper }}}}, which is not ")


@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_other_containers_may_have_templates_of_their_own(field: str) -> None:
    other = {"name": "other", "image": "o:1", "args": ["--format={{ .Id | upper }}"]}

    (rendered,) = predictor_of(predictor={field: [other]}).pod[field]

    assert rendered["args"] == other["args"]


def test_the_users_environment_wins_over_the_operators() -> None:
    predictor = predictor_of(model={"env": [{"name": "INFERENCE_SERVICE_NAME", "value": "mine"}]})

    assert env_of(predictor) == {"INFERENCE_SERVICE_NAME": "mine", "PROTOCOL_VERSION": "v1"}


def test_the_operators_environment_comes_first_so_that_others_can_refer_to_it() -> None:
    predictor = predictor_of(model={"env": [{"name": "WHO", "value": "$(INFERENCE_SERVICE_NAME)"}]})

    assert list(env_of(predictor)) == ["INFERENCE_SERVICE_NAME", "PROTOCOL_VERSION", "WHO"]


BATCHER = {"maxBatchSize": 8, "maxLatency": 50, "timeout": 2000}


def test_batching_and_the_timeout_are_variables_of_the_server() -> None:
    predictor = predictor_of(a_runtime(server_type="mar"), predictor={"batcher": BATCHER, "timeout": 30})

    assert predictor.server["env"] == [
        {"name": "INFERENCE_SERVICE_NAME", "value": "torchserve"},
        {"name": "MAX_BATCH_SIZE", "value": "8"},
        {"name": "MAX_LATENCY", "value": "50"},
        {"name": "BATCH_TIMEOUT", "value": "2000"},
        {"name": "REQUEST_TIMEOUT", "value": "30"},
    ]


@pytest.mark.parametrize(
    "predictor",
    [{}, {"batcher": {}}, {"batcher": {"maxBatchSize": 0, "maxLatency": -1, "timeout": 0}, "timeout": 0}],
    ids=["not asked for", "asked for without a number", "zero or less"],
)
def test_the_servers_defaults_are_kept_without_settings(predictor: dict[str, Any]) -> None:
    assert predictor_of(predictor=predictor).server == predictor_of().server


def test_the_batcher_wins_over_the_runtimes_variable_and_the_users_variable_over_both() -> None:
    runtime = a_runtime(
        container={"env": [{"name": "MAX_BATCH_SIZE", "value": "1"}, {"name": "MAX_LATENCY", "value": "1"}]}
    )

    env = env_of(
        predictor_of(
            runtime,
            model={"env": [{"name": "MAX_LATENCY", "value": "99"}]},
            predictor={"batcher": {"maxBatchSize": 8, "maxLatency": 50}},
        )
    )

    assert (env["MAX_BATCH_SIZE"], env["MAX_LATENCY"]) == ("8", "99")


REST, GRPC = {"name": "http", "containerPort": 8080}, {"name": "grpc", "containerPort": 8081}
NAMELESS = {"containerPort": 9000}


@pytest.mark.parametrize(
    ("protocol", "ports"),
    [
        ("v1", [NAMELESS, REST, GRPC]),
        ("v2", [NAMELESS, REST, GRPC]),
        ("grpc-v2", [GRPC, NAMELESS, REST]),
        ("grpc-v1", [GRPC, NAMELESS, REST]),
    ],
)
def test_the_port_of_the_models_protocol_comes_first(protocol: str, ports: list[dict[str, Any]]) -> None:
    runtime = a_runtime(protocols=[], container={"ports": [NAMELESS, REST, GRPC]})

    assert predictor_of(runtime, model={"protocolVersion": protocol}).server["ports"] == ports


def test_a_grpc_port_of_the_users_is_found_by_its_name() -> None:
    runtime = a_runtime(protocols=[], container={"ports": [REST]})
    h2c = {"name": "h2c", "containerPort": 9000}

    assert predictor_of(runtime, model={"protocolVersion": "grpc-v2", "ports": [h2c]}).server["ports"] == [h2c, REST]


def test_the_runtime_version_is_the_images_tag() -> None:
    assert predictor_of(model={"runtimeVersion": "2.0"}).server["image"] == "registry.example/torchserve:2.0"


def test_a_model_field_that_no_container_has_does_not_reach_the_container() -> None:
    assert predictor_of(model={"imagee": "mine", "runtime": "kserve-torchserve"}).server == predictor_of().server


def test_a_runtime_without_a_server_container_is_refused() -> None:
    with pytest.raises(InvalidSpec) as caught:
        predictor_of(a_runtime(container={"name": "server"}))

    assert caught.value.reason == "RuntimeNotRecognized"
    assert str(caught.value) == (
        "runtime 'kserve-torchserve' has no container named 'kserve-container'; give its server that name"
    )


# --- the rest of the pod -------------------------------------------------------------------------------


def test_the_runtimes_pod_settings_are_the_base_of_the_users() -> None:
    runtime = a_runtime(
        nodeSelector={"gpu": "yes", "zone": "a"},
        affinity={"nodeAffinity": {"x": 1}},
        tolerations=[TOLERATION],
        imagePullSecrets=[{"name": "runtime"}],
        resourceClaims=[{"name": "device", "resourceClaimName": "one"}],
        schedulerName="volcano",
        hostIPC=True,
        volumes=[{"name": "shm", "emptyDir": {}}, {"name": "scratch", "emptyDir": {}}],
    )

    predictor = predictor_of(
        runtime,
        predictor={
            "nodeSelector": {"zone": "b"},
            "affinity": {"podAffinity": {"y": 2}},
            "tolerations": [OTHER_TOLERATION],
            "imagePullSecrets": [{"name": "user"}],
            "volumes": [{"name": "scratch", "emptyDir": {"medium": "Memory"}}, {"name": "mine", "emptyDir": {}}],
            "serviceAccountName": "reader",
        },
    )

    assert predictor.pod == {
        "nodeSelector": {"gpu": "yes", "zone": "b"},
        "affinity": {"nodeAffinity": {"x": 1}, "podAffinity": {"y": 2}},
        "tolerations": [OTHER_TOLERATION],
        "imagePullSecrets": [{"name": "runtime"}, {"name": "user"}],
        "resourceClaims": [{"name": "device", "resourceClaimName": "one"}],
        "schedulerName": "volcano",
        "volumes": [
            {"name": "shm", "emptyDir": {}},
            {"name": "scratch", "emptyDir": {"medium": "Memory"}},
            {"name": "mine", "emptyDir": {}},
        ],
        "serviceAccountName": "reader",
        "containers": [],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }


def test_the_runtimes_pod_settings_stand_where_the_user_sets_none() -> None:
    settings: dict[str, Any] = {
        "nodeSelector": {"gpu": "yes"},
        "affinity": {"nodeAffinity": {"x": 1}},
        "tolerations": [TOLERATION],
        "imagePullSecrets": [{"name": "runtime"}],
        "resourceClaims": [{"name": "device"}],
        "schedulerName": "volcano",
        "volumes": [{"name": "shm", "emptyDir": {}}],
    }

    pod = predictor_of(a_runtime(hostIPC=True, **settings)).pod

    ours = {"automountServiceAccountToken": False, "enableServiceLinks": False}
    assert pod == {**settings, "containers": [], **ours}


def test_containers_beside_the_server_come_from_the_runtime_and_the_user() -> None:
    runtime = a_runtime(sidecars=[{"name": "proxy", "image": "p:1"}, {"name": "logs", "image": "l:1"}])

    predictor = predictor_of(
        runtime, predictor={"containers": [{"name": "logs", "image": "l:2"}, {"name": "mine", "image": "m"}]}
    )

    assert predictor.pod["containers"] == [
        {"name": "proxy", "image": "p:1", "env": SERVICE_NAME},
        {"name": "logs", "image": "l:2", "env": SERVICE_NAME},
        {"name": "mine", "image": "m", "env": SERVICE_NAME},
    ]


def test_fields_that_no_container_has_are_left_out_of_the_users_containers() -> None:
    misspelt = {"image": "m", "resource": {}, "resources": None}
    containers = {"containers": [{"name": "mine", **misspelt}], "initContainers": [{"name": "first", **misspelt}]}

    pod = predictor_of(predictor=containers).pod

    assert pod["containers"] == [{"name": "mine", "image": "m", "env": SERVICE_NAME}]
    assert pod["initContainers"] == [{"name": "first", "image": "m"}]


def test_the_hooks_of_a_runtime_fit_in_the_services_grace_period() -> None:
    hook = {"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}
    runtime = a_runtime(container=hook, sidecars=[{"name": "proxy", "image": "p:1", **hook}])

    predictor = predictor_of(runtime, predictor={"terminationGracePeriodSeconds": 3})

    expected = {"preStop": {"sleep": {"seconds": 3}}}
    assert [item["lifecycle"] for item in (predictor.server, *predictor.pod["containers"])] == [expected, expected]


def test_a_runtimes_transformer_is_merged_with_the_users() -> None:
    theirs = {"name": "transformer-container", "image": "t:1", "command": ["serve"], "args": ["--workers=1"]}
    runtime = a_runtime(sidecars=[theirs])

    (merged,) = predictor_of(
        runtime, predictor={"containers": [{"name": "transformer-container", "args": ["--model_name=m"]}]}
    ).pod["containers"]

    assert {name: merged[name] for name in theirs} == {**theirs, "args": ["--workers=1", "--model_name=m"]}


def test_a_pod_gets_an_api_token_only_on_request() -> None:
    allowed = parse_config({"security": '{"autoMountServiceAccountToken": true}'})

    assert predictor_of().pod["automountServiceAccountToken"] is False
    assert predictor_of(config=allowed).pod["automountServiceAccountToken"] is True
    assert predictor_of(predictor={"automountServiceAccountToken": True}).pod["automountServiceAccountToken"] is True


# --- roll-out ------------------------------------------------------------------------------------------


def test_the_users_strategy_is_taken_word_for_word() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "0%"}}

    misspelled = {**strategy, "rollingUpdat": {"maxSurge": 2}}

    assert predictor_of(predictor={"deploymentStrategy": strategy}).strategy == strategy
    assert predictor_of(predictor={"deploymentStrategy": misspelled}).strategy == strategy


@pytest.mark.parametrize(("annotation", "writable"), [("false", True), ("False", True), ("true", False), ("x", False)])
def test_the_server_may_write_to_its_model_only_where_the_annotation_says_so(annotation: str, writable: bool) -> None:
    storage = predictor_of(annotations={"storage.kserve.io/readonly": annotation}).storage

    assert storage is not None
    assert storage.writable is writable


# --- containers of the user's own -------------------------------------------------------------------------


def test_a_predictor_of_own_containers_needs_no_runtime_and_gets_no_arguments() -> None:
    server = {"name": "mine", "image": "i:1", "args": ["--port=9000"], "ports": [{"containerPort": 9000}]}

    resolved = a_resolved(a_service(model=None, predictor={"timeout": 20, "containers": [server]}))

    assert resolved.chosen is None
    assert resolved.predictor.server["args"] == ["--port=9000"]
    assert resolved.predictor.server["env"] == [*SERVICE_NAME, {"name": "REQUEST_TIMEOUT", "value": "20"}]
    assert resolved.predictor.pod == {
        "containers": [],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }
    assert resolved.predictor.storage is None


def test_its_variable_has_the_uri_and_becomes_the_path() -> None:
    server = {"image": "i:1", "env": [{"name": "STORAGE_URI", "value": "pvc://leeway/model"}]}

    predictor = a_resolved(a_service(model=None, predictor={"containers": [server]})).predictor

    assert predictor.storage == StoragePlan(copied=(storage_source("pvc://leeway/model", "/mnt/models"),))
    assert {"name": "STORAGE_URI", "value": "/mnt/models"} in predictor.server["env"]
