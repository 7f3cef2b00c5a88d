"""A service as a whole, where it depends on more than its own documents (tests/golden/fields has the rest)."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from isvc_operator.api.parsing import parse_serving_runtime
from isvc_operator.config import IngressConfig, OperatorConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.hosts import resolve_hosts
from isvc_operator.resolve.ignored import ignored_parts
from isvc_operator.resolve.requested import is_stopped
from isvc_operator.resolve.runtime import server_type_of
from tests.support.builders import a_resolved, a_runtime, a_service, the_children
from tests.support.kserve_runtimes import kserve_runtimes
from tests.support.source_tree import ROOT

WRAPPERS = {"transformer": {"containers": [{"image": "t"}]}, "explainer": {"containers": [{"image": "e"}]}}


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


URIS = [{"uri": "s3://b/1"}]
PROTOCOL = {"name": "PROTOCOL", "value": "v3"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {
                "model": None,
                "predictor": {"containers": [{"image": "i", "env": [{"name": "PROTOCOL", "value": "v3"}]}]},
            },
            "variable PROTOCOL of spec.predictor is 'v3'; write one of v1, v2",
        ),
        ({"predictor": {"storageUris": URIS}}, "storageUri and storageUris are both given"),
    ],
    ids=["protocol", "two places"],
)
def test_what_the_rules_of_the_crd_refuse_is_refused_where_they_are_not_installed(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidSpec) as caught:
        a_resolved(a_service(**fields))

    assert str(caught.value).startswith(message)


def test_the_storage_of_any_component_refers_to_objects() -> None:
    remote = {"env": [{"name": "STORAGE_URI", "value": "s3://b/words"}], "image": "t"}

    assert not a_resolved(a_service(spec=WRAPPERS)).refers_to_objects
    assert a_resolved(a_service(spec={"transformer": {"containers": [remote]}})).refers_to_objects


def test_without_keda_the_number_is_the_users_and_what_to_do_is_said() -> None:
    service = a_service(
        predictor={"minReplicas": 2, "maxReplicas": 4}, annotations={"serving.kserve.io/autoscalerClass": "keda"}
    )
    resolved = a_resolved(service, keda=False)

    assert resolved.waits_for_keda
    assert resolved.predictor.scaling.replicas == 2
    assert resolved.predictor.scaling.ignored == (
        "annotation serving.kserve.io/autoscalerClass: keda (the cluster has no KEDA, so no ScaledObject is made and "
        "the number of pods stays as it is; install KEDA, or write hpa)",
    )


def test_a_path_of_an_older_service_is_left_to_it() -> None:
    config = IngressConfig(enable_gateway_api=True, path_template="/of/{{.Name}}")

    hosts = resolve_hosts(a_service().metadata, {}, address="", config=config, taken={"example.com/of/torchserve": "a"})

    assert (hosts.path, hosts.displaced, hosts.url) == (None, True, "http://torchserve.models.example.com")


def test_older_runtimes_of_kserve_are_recognized_by_their_names() -> None:
    types = {name: server_type_of(runtime) for name, runtime in kserve_runtimes(annotated=False).items()}

    assert {name: type_ for name, type_ in types.items() if type_} == {
        "kserve-mlserver": "mlserver",
        "kserve-torchserve": "torchserve",
        "kserve-tritonserver": "tritonserver",
        "kserve-tensorflow-serving": "tensorflow-serving",
        "kserve-huggingfaceserver": "huggingfaceserver",
        "kserve-vllmserver": "vllmserver",
    }


@pytest.mark.parametrize("name", ["isvc-mar", "kserve-torchserve"])
def test_the_shipped_runtimes_read_every_setting(name: str) -> None:
    runtime = parse_serving_runtime(yaml.safe_load((ROOT / f"manifests/runtimes/{name}.yaml").read_text()))
    settings: dict[str, Any] = {"batcher": {"maxBatchSize": 8, "maxLatency": 50, "timeout": 60}, "timeout": 5}
    service = a_service(model={"protocolVersion": "v1"}, predictor=settings)

    assert list(ignored_parts(service, a_resolved(service, runtime), OperatorConfig())) == []


def test_rendering_twice_gives_the_same_and_changes_nothing_that_went_in() -> None:
    service, runtime = a_service(), a_runtime(container={"env": [{"name": "A", "value": "1"}]})

    first = the_children(service, runtime)

    assert the_children(service, runtime) == first
    assert runtime == a_runtime(container={"env": [{"name": "A", "value": "1"}]})
