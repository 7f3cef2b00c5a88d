"""A service as a whole: what it becomes, and when it is refused or stopped."""

from __future__ import annotations

import pytest

from isvc_operator.config import OperatorConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.component import StorageContext
from isvc_operator.resolve.requested import is_stopped, storage_requests
from isvc_operator.resolve.runtime import Runtimes
from isvc_operator.resolve.service import resolve
from tests.support.builders import a_resolved, a_runtime, a_service


def test_the_decisions_about_the_story() -> None:
    resolved = a_resolved()

    assert resolved.service == a_service()
    assert (resolved.chosen.runtime, resolved.chosen.cluster_wide, resolved.chosen.protocol) == (
        a_runtime(),
        True,
        "v1",
    )
    assert resolved.predictor.name == "torchserve-predictor"
    assert resolved.hosts.url == "http://torchserve.models.example.com"


def test_an_older_framework_key_wins_over_the_model_beside_it() -> None:
    service = a_service(predictor={"pytorch": {"storageUri": "s3://newer/model"}})

    storage = a_resolved(service).predictor.storage

    assert storage is not None
    assert [source.uri for source in storage.copied] == ["s3://newer/model"]


def test_a_service_may_name_its_runtime_beside_an_older_framework_key_by_an_annotation() -> None:
    service = a_service(model=None, predictor={"pytorch": {}}, annotations={"isvc-operator.io/runtime": "mine"})

    resolved = resolve(
        service,
        Runtimes(cluster=(a_runtime(), a_runtime("mine"))),
        OperatorConfig(),
        storage=StorageContext(storage_requests(service)),
    )

    assert resolved.chosen.runtime == a_runtime("mine")


def test_a_predictor_of_nothing_is_refused_with_what_to_write() -> None:
    with pytest.raises(InvalidSpec) as caught:
        a_resolved(a_service(model=None))

    assert caught.value.reason == "InvalidPredictorSpec"
    assert str(caught.value).startswith("spec.predictor names nothing to serve; set spec.predictor.model.modelFormat")


def test_a_predictor_on_several_nodes_is_refused_rather_than_served_in_part() -> None:
    with pytest.raises(InvalidSpec) as caught:
        a_resolved(a_service(predictor={"workerSpec": {}}))

    assert caught.value.reason == "InvalidPredictorSpec"
    assert str(caught.value).startswith("spec.predictor.workerSpec requests one model on several nodes, which is not")


@pytest.mark.parametrize(
    ("annotations", "stopped"),
    [
        ({}, False),
        ({"serving.kserve.io/stop": "true"}, True),
        ({"serving.kserve.io/stop": "True"}, True),
        ({"serving.kserve.io/stop": "false"}, False),
        ({"serving.kserve.io/stop": ""}, False),
    ],
)
def test_a_service_is_stopped_by_its_annotation(annotations: dict[str, str], stopped: bool) -> None:
    assert is_stopped(a_service(annotations=annotations)) is stopped
