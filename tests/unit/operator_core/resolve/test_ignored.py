"""What of a service has no effect as it is resolved."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator import __version__
from isvc_operator.config import OperatorConfig
from isvc_operator.resolve.ignored import unserved_parts
from tests.support.builders import a_resolved, a_runtime, a_service, the_shipped_runtime
from tests.support.credentials import a_context, a_storage_container
from tests.support.kserve_runtimes import kserve_runtime

NOTHING_DOWNLOADED = " (nothing is downloaded: the server reads the model where it is)"
NO_MODEL = (
    "spec.predictor.model.storageUri (missing: the server of runtime {runtime} reads /mnt/models, where nothing puts a "
    "model; write it, or an image that contains the model)"
)


def unserved(**model: Any) -> list[str]:
    return list(unserved_parts(a_resolved(a_service(model=model), the_shipped_runtime())))


def unserved_by_kserves(runtime: str, format_: str, **model: Any) -> list[str]:
    fields = {"protocolVersion": None, "modelFormat": {"name": format_}, "runtime": runtime, **model}
    return list(unserved_parts(a_resolved(a_service(model=fields), kserve_runtime(runtime))))


# --- a version -------------------------------------------------------------------------------------------


def test_a_version_that_our_image_does_not_have_is_reported() -> None:
    assert unserved(runtimeVersion="0.9.0-gpu") == [
        "spec.predictor.model.runtimeVersion: 0.9.0-gpu (localhost/isvc-operator/torchserve:0.2.0 has only one "
        "version; write another image as spec.predictor.model.image)"
    ]


def test_it_is_reported_where_the_user_wrote_it() -> None:
    service = a_service(model=None, predictor={"pytorch": {"storageUri": "pvc://leeway", "runtimeVersion": "0.9.0"}})

    (reported,) = unserved_parts(a_resolved(service, the_shipped_runtime()))

    assert reported.startswith("spec.predictor.pytorch.runtimeVersion: 0.9.0 ")


def test_a_version_of_an_image_that_is_pinned_by_its_digest_is_reported() -> None:
    runtime = a_runtime(container={"image": "registry.example/tf@sha256:0123"})

    assert list(unserved_parts(a_resolved(a_service(model={"runtimeVersion": "2"}), runtime))) == [
        "spec.predictor.model.runtimeVersion: 2 (registry.example/tf@sha256:0123 is pinned by its digest; write "
        "another image as spec.predictor.model.image)"
    ]


@pytest.mark.parametrize("model", [{}, {"runtimeVersion": __version__}, {"runtimeVersion": "3", "image": "mine:1"}])
def test_a_version_that_the_pod_gets_is_not_reported(model: dict[str, Any]) -> None:
    assert unserved(**model) == []


# --- ports ------------------------------------------------------------------------------------------------


def test_a_grpc_port_of_torchserves_at_which_our_servers_have_none_is_reported() -> None:
    assert unserved(ports=[{"name": "h2c", "containerPort": 7070}]) == [
        "spec.predictor.model.ports: h2c 7070 (the server of runtime kserve-torchserve has gRPC at port 8081; "
        "protocolVersion: grpc-v2 makes port 80 of the Service lead there)"
    ]


@pytest.mark.parametrize("port", [{"name": "h2c", "containerPort": 8081}, {"name": "web", "containerPort": 7070}])
def test_the_servers_own_port_and_those_of_other_protocols_are_not_reported(port: dict[str, Any]) -> None:
    assert unserved(ports=[port]) == []


def test_any_port_of_a_server_that_lists_none_may_be_right() -> None:
    port = {"name": "h2c", "containerPort": 9000}

    assert unserved_by_kserves("kserve-tensorflow-serving", "tensorflow", ports=[port]) == []


# --- no model --------------------------------------------------------------------------------------------


def test_a_server_that_will_find_no_model_is_reported() -> None:
    assert unserved(storageUri=None) == [NO_MODEL.format(runtime="kserve-torchserve")]
    assert unserved_by_kserves("kserve-sklearnserver", "sklearn", storageUri=None) == [
        NO_MODEL.format(runtime="kserve-sklearnserver")
    ]


MODELS = {
    "an image of its own": {"image": "registry.example/with-model:1"},
    "a volume of its own": {"volumeMounts": [{"name": "models", "mountPath": "/mnt/models"}]},
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_a_model_that_comes_in_another_way_is_not_reported(model: dict[str, Any]) -> None:
    assert unserved(storageUri=None, **model) == []


@pytest.mark.parametrize(
    ("runtime", "format_"),
    [("kserve-mlserver", "sklearn"), ("kserve-tritonserver", "triton"), ("kserve-huggingfaceserver", "huggingface")],
)
def test_a_server_that_may_start_without_a_model_is_not_reported(runtime: str, format_: str) -> None:
    assert unserved_by_kserves(runtime, format_, storageUri=None) == []


def test_own_containers_are_not_reported() -> None:
    service = a_service(model=None, predictor={"containers": [{"image": "mine", "args": ["--dir=/mnt/models"]}]})

    assert list(unserved_parts(a_resolved(service))) == []


def test_of_a_cluster_storage_container_unknown_fields_are_named_and_left_out() -> None:
    container = a_storage_container(prefix="s3://", imagePullPolcy="Always", tty=True)
    service = a_service(model={"storageUri": "s3://bucket/model"})

    resolved = a_resolved(service, the_shipped_runtime(), OperatorConfig(), a_context(containers=(container,)))

    assert list(unserved_parts(resolved)) == [
        "ClusterStorageContainer mine: spec.container.imagePullPolcy (did you mean imagePullPolicy?)"
    ]
    assert resolved.predictor.storage is not None
    assert resolved.predictor.storage.container == {
        "name": "storage-initializer", "image": "registry.example/mine:1", "tty": True
    }  # fmt: skip


@pytest.mark.parametrize(
    ("uri", "annotation", "value", "told"),
    [
        ("oci://a/b", "storage.isvc-operator.io/sha256", "{}", NOTHING_DOWNLOADED),
        ("oci://a/b", "storage.isvc-operator.io/ignore-patterns", "*.md", NOTHING_DOWNLOADED),
        ("oci+native://a/b", "storage.isvc-operator.io/resources", "{}", NOTHING_DOWNLOADED),
        ("oci://a/b", "storage.kserve.io/readonly", "false", ": false (the files of an image cannot be changed)"),
        ("s3://a/b", "storage.isvc-operator.io/allow-patterns", "*.md", None),
        ("oci://a/b", "storage.kserve.io/readonly", "true", None),
    ],
)
def test_annotations_for_downloads_are_named_where_there_is_none(
    uri: str, annotation: str, value: str, told: str | None
) -> None:
    service = a_service(model={"storageUri": uri}, annotations={annotation: value})

    ignored = list(unserved_parts(a_resolved(service, the_shipped_runtime())))

    assert ignored == ([f"annotation {annotation}{told}"] if told else [])
