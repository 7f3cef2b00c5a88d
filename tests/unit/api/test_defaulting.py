"""One form of the model, whichever of the API's forms the user wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from isvc_operator.api.components import FRAMEWORKS, PredictorSpec
from isvc_operator.resolve.requested import model_of


def predictor(**fields: Any) -> PredictorSpec:
    return PredictorSpec.model_validate(fields, by_alias=True, by_name=False)


def model(**fields: Any) -> Mapping[str, Any] | None:
    found = model_of(predictor(**fields))
    return found.as_dict() if found else None


def test_a_framework_key_becomes_a_model_of_that_format() -> None:
    extension = {
        "storageUri": "gs://kfserving-examples/models/torchserve/image_classifier/v1",
        "runtimeVersion": "0.12.0",
        "resources": {"limits": {"cpu": 1}},
        "env": [{"name": "EMPTY", "value": None}],
        "unknownToUs": {"kept": True},
    }
    assert model(pytorch=extension) == {"modelFormat": {"name": "pytorch"}} | extension


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_framework_key_is_known(framework: str) -> None:
    found = model(**{framework: {"storageUri": "pvc://leeway"}})
    assert found is not None
    assert found["modelFormat"] == {"name": framework}


def test_a_framework_key_wins_over_a_stored_model() -> None:
    stored = {"modelFormat": {"name": "onnx"}, "storageUri": "pvc://old", "runtime": "theirs"}
    assert model(model=stored, pytorch={"storageUri": "pvc://new"}) == {
        "modelFormat": {"name": "pytorch"},
        "storageUri": "pvc://new",
    }


def test_the_first_framework_key_in_order_counts() -> None:
    found = model(paddle={}, pytorch={}, sklearn={})
    assert found == {"modelFormat": {"name": "sklearn"}}


@pytest.mark.parametrize("framework", ["triton", "onnx", "huggingface"])
def test_frameworks_that_speak_v2_only_get_it(framework: str) -> None:
    assert model(**{framework: {}}) == {"modelFormat": {"name": framework}, "protocolVersion": "v2"}


@pytest.mark.parametrize("name", ["triton", "vLLM"])
def test_formats_that_speak_v2_only_get_it(name: str) -> None:
    assert model(model={"modelFormat": {"name": name}}) == {
        "modelFormat": {"name": name},
        "protocolVersion": "v2",
    }


@pytest.mark.parametrize("fields", [{"triton": {}}, {"model": {"modelFormat": {"name": "triton"}}}])
def test_a_protocol_that_was_given_stays(fields: dict[str, dict[str, Any]]) -> None:
    for value in fields.values():
        value["protocolVersion"] = "grpc-v2"
    found = model(**fields)
    assert found is not None
    assert found["protocolVersion"] == "grpc-v2"


@pytest.mark.parametrize("name", ["pytorch", "onnx"])
def test_other_models_are_left_as_they_are(name: str) -> None:
    given = {"modelFormat": {"name": name}, "storageUri": "pvc://leeway"}
    assert model(model=given) == given


def test_a_predictor_of_the_users_own_containers_has_no_model() -> None:
    assert model(containers=[{"image": "ours"}]) is None
