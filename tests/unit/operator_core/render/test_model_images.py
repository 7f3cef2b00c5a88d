"""What a pod gets for models that are images."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.config import OperatorConfig, parse_config
from tests.support.builders import a_runtime, a_service, the_children

IMAGE = "registry.example/bert:1"
MODEL = {"modelFormat": {"name": "pytorch"}}


def pod_of(
    *uris: tuple[str, str],
    config: OperatorConfig | None = None,
    runtime: dict[str, Any] | None = None,
    **predictor: Any,
) -> dict[str, Any]:
    """The pod of a model in an image, or of several sources with their folders."""
    sources = {"model": {**MODEL, "storageUri": f"oci://{IMAGE}"}}
    if uris:
        several = [{"uri": uri, "mountPath": path} for uri, path in uris]
        sources = {"model": MODEL, "storageUris": several}  # type: ignore[dict-item]
    service = a_service(model=None, predictor={**sources, **predictor})
    children = the_children(service, a_runtime(container=runtime or {}), config)
    pod: dict[str, Any] = children["Deployment"]["spec"]["template"]["spec"]
    return pod


def users_of(pod: dict[str, Any]) -> list[tuple[int, int]]:
    contexts = [item["securityContext"] for item in (*pod["initContainers"], *pod["containers"])]
    return [(context["runAsUser"], context["runAsGroup"]) for context in contexts]


@pytest.mark.parametrize(
    ("runtime", "predictor", "user"),
    [
        ({}, {}, (1010, 1010)),
        ({"securityContext": {"runAsUser": 1000}}, {}, (1000, 1000)),
        ({"securityContext": {"runAsUser": 1000, "runAsGroup": 3000}}, {}, (1000, 3000)),
        ({}, {"securityContext": {"runAsUser": 2000}}, (2000, 2000)),
    ],
)
def test_all_run_as_the_same_user(runtime: dict[str, Any], predictor: dict[str, Any], user: tuple[int, int]) -> None:
    """Others may not follow the link."""
    assert users_of(pod_of(runtime=runtime, **predictor)) == [user] * 3


def test_the_administrator_sets_user_and_resources() -> None:
    settings = '{"uidModelcar": 5000, "cpuModelcar": "20m", "memoryModelcar": "30Mi"}'

    pod = pod_of(config=parse_config({"storageInitializer": settings}))

    assert users_of(pod) == [(5000, 5000)] * 3
    assert pod["initContainers"][0]["resources"]["requests"] == {"cpu": "20m", "memory": "30Mi"}


def test_links_in_one_folder_share_a_volume() -> None:
    """And the copies there, too: two volumes cannot be mounted at one path."""
    pod = pod_of(
        ("oci://a", "/mnt/models/a"), ("oci://b", "/opt/b"), ("s3://bucket/c", "/mnt/models/c"),
        ("s3://bucket/d", "/mnt/models/d"),
    )  # fmt: skip

    assert [item["name"] for item in pod["initContainers"]] == [
        "modelcar", "modelcar-init", "modelcar-1", "modelcar-init-1", "storage-initializer"
    ]  # fmt: skip
    assert [volume["name"] for volume in pod["volumes"]] == ["kserve-provision-location", "kserve-modelcar-1"]
    assert [item["volumeMounts"][0]["mountPath"] for item in pod["initContainers"]] == [
        "/mnt/models", "/mnt/models", "/opt", "/opt", "/mnt/models"
    ]  # fmt: skip
    assert [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]] == ["/mnt/models", "/opt"]


def test_a_transformer_in_the_predictors_pod_reads_the_model_too() -> None:
    pod = pod_of(containers=[{"name": "transformer-container", "image": "t"}])

    _, transformer = pod["containers"]
    assert transformer["volumeMounts"] == [{"name": "kserve-provision-location", "mountPath": "/mnt"}]
    assert (transformer["securityContext"]["runAsUser"], transformer["securityContext"]["runAsGroup"]) == (1010, 1010)
