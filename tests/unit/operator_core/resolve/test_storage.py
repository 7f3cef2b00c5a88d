"""Where the model comes from."""

from __future__ import annotations

import pytest

from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.storage import StoragePlan, plan_storage
from tests.support.builders import a_model


@pytest.mark.parametrize(
    ("uri", "claim"),
    [
        ("pvc://leeway", "leeway"),
        ("pvc://leeway/", "leeway"),
        ("pvc://leeway/sub/path", "leeway"),
        ("PVC://leeway/sub", "leeway"),
        ("pvc://leeway/a#b?c", "leeway"),
        ("s3://bucket/prefix", None),
        ("gs://bucket/model", None),
        ("https://example.com/model.mar", None),
        ("/mnt/already/there", None),
    ],
)
def test_a_source_is_copied_to_the_models_folder_and_only_a_claim_is_mounted(uri: str, claim: str | None) -> None:
    assert plan_storage(a_model(storageUri=uri), "torchserve") == StoragePlan(uri, "/mnt/models", claim, "torchserve")


@pytest.mark.parametrize("server_type", [None, "mlserver"])
def test_the_folder_of_any_other_server_is_not_checked(server_type: str | None) -> None:
    assert plan_storage(a_model(), server_type) == StoragePlan("pvc://leeway", "/mnt/models", "leeway", "none")


def test_our_own_servers_folder_is_checked_only_where_it_looks_like_torchserves() -> None:
    assert plan_storage(a_model(), "mar") == StoragePlan("pvc://leeway", "/mnt/models", "leeway", "auto")


@pytest.mark.parametrize("uri", [None, ""])
def test_a_model_without_storage_needs_no_plan(uri: str | None) -> None:
    assert plan_storage(a_model(storageUri=uri), "torchserve") is None


@pytest.mark.parametrize("uri", ["pvc://", "pvc:///sub/path"])
def test_a_claim_without_a_name_is_refused(uri: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        plan_storage(a_model(storageUri=uri), "torchserve")

    assert str(caught.value) == f"storageUri '{uri}' names no claim; write pvc://CLAIM or pvc://CLAIM/PATH"


def test_storage_by_secret_is_refused_with_what_to_use() -> None:
    with pytest.raises(InvalidSpec) as caught:
        plan_storage(a_model(storage={"key": "minio"}), "torchserve")

    assert str(caught.value) == "spec.predictor.model.storage is not supported by this version; use storageUri"
