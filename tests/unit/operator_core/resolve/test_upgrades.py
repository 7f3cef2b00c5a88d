"""The policy of a service for upgrades, and the digests of what its pods are rendered from."""

from __future__ import annotations

import json
from typing import Any

import pytest

from isvc_operator.api.inference_service import InferenceService
from isvc_operator.config import OperatorConfig, UpgradePolicy, parse_config
from isvc_operator.resolve.component import StorageContext
from isvc_operator.resolve.service import Resolved
from isvc_operator.resolve.storage.plan import ObjectReference
from tests.support.builders import a_resolved, a_runtime, a_service
from tests.support.credentials import a_context, a_storage_container

POLICY = "isvc-operator.io/upgrade-policy"
AUTO = parse_config({"inferenceService": '{"upgradePolicy": "Auto"}'})
OWN = {"containers": [{"name": "kserve-container", "image": "front:1"}]}
SECRET = ObjectReference("Secret", "keys")


def a_secret(annotation: str = "a", **data: str) -> StorageContext:
    body = {"kind": "Secret", "metadata": {"name": "keys", "annotations": {"x": annotation}}, "data": data}
    return StorageContext({}, objects={SECRET: body})


def a_config(**sections: Any) -> OperatorConfig:
    return parse_config({name: json.dumps(section) for name, section in sections.items()})


@pytest.mark.parametrize(
    ("annotations", "config", "policy"),
    [
        ({}, OperatorConfig(), UpgradePolicy.ON_CHANGE),
        ({}, AUTO, UpgradePolicy.AUTO),
        ({POLICY: "Auto"}, OperatorConfig(), UpgradePolicy.AUTO),
        ({POLICY: "OnChange"}, AUTO, UpgradePolicy.ON_CHANGE),
    ],
)
def test_a_services_own_policy_wins(annotations: dict[str, str], config: OperatorConfig, policy: UpgradePolicy) -> None:
    assert a_resolved(a_service(annotations=annotations), config=config).upgrade_policy is policy


def test_the_policy_reaches_no_pod() -> None:
    with_policy, plain = (a_resolved(a_service(annotations=given)) for given in ({POLICY: "Auto"}, {}))

    assert with_policy.predictor == plain.predictor
    assert with_policy.inputs.every == plain.inputs.every


BEFORE = a_resolved()


@pytest.mark.parametrize(
    ("after", "is_own"),
    [
        (a_resolved(a_service(model={"args": ["--debug"]})), True),
        (a_resolved(a_service(model={"unknown": "field"})), True),
        (a_resolved(a_service(labels={"team": "vision"})), True),
        (a_resolved(a_service(annotations={"example.com/note": "x"})), True),
        (a_resolved(runtime=a_runtime(container={"image": "registry.example/torchserve:2.0"})), False),
        (a_resolved(runtime=a_runtime(metadata_annotations={"isvc-operator.io/settings": "TIMEOUT"})), False),
        (a_resolved(config=a_config(storageInitializer={"image": "registry.example/initializer:2"})), False),
        (a_resolved(config=a_config(security={"autoMountServiceAccountToken": True})), False),
        (a_resolved(config=a_config(inferenceService={"resource": {"cpuLimit": "2"}})), False),
        (a_resolved(context=a_secret(key="")), False),
        (a_resolved(context=a_context(containers=(a_storage_container(regex="."),))), False),
    ],
)
def test_what_reaches_the_pods_is_in_the_digest_and_the_services_own_part_has_one_of_its_own(
    after: Resolved, is_own: bool
) -> None:
    assert after.inputs.every.keys() == {"predictor"}
    assert after.inputs.every != BEFORE.inputs.every
    assert (after.inputs.own != BEFORE.inputs.own) is is_own


@pytest.mark.parametrize(
    "after",
    [
        a_resolved(a_service(generation=7, status={"observedGeneration": 6})),
        a_resolved(a_service(annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}"})),
        a_resolved(config=a_config(ingress={"ingressDomain": "ml.test"}, autoscaler={})),
        a_resolved(runtime=a_runtime(metadata_annotations={"example.com/note": "x"})),
        a_resolved(config=a_config(service={"serviceClusterIPNone": False}, logger={}, security={})),
        a_resolved(config=AUTO),
        a_resolved(config=OperatorConfig().with_headless_services(True)),
        a_resolved(keda=False),
        a_resolved(context=a_context(containers=(a_storage_container(prefix="custom://"),))),
    ],
)
def test_what_does_not_reach_them_is_not(after: Resolved) -> None:
    assert after.inputs.every == BEFORE.inputs.every


OF_MODELS = {
    "storageInitializer": {"image": "registry.example/initializer:2", "memoryLimit": "2Gi"},
    "credentials": {"storageSecretNameAnnotation": "example.com/secret"},
}
IMAGE = {"storageInitializer": {"image": "registry.example/initializer:2"}}


@pytest.mark.parametrize(
    ("service", "settings"),
    [
        (a_service(model=None, predictor=OWN), OF_MODELS),
        (a_service(model={"storageUri": "oci://registry.example/model:1"}), IMAGE),
        (a_service(annotations={"storage.isvc-operator.io/pvc-mode": "direct"}), IMAGE),
    ],
    ids=["own containers", "an image", "a claim that is mounted"],
)
def test_settings_for_downloads_do_not_reach_pods_that_download_nothing(
    service: InferenceService, settings: dict[str, Any]
) -> None:
    before, after = a_resolved(service), a_resolved(service, config=a_config(**settings))

    assert (after.inputs.every, after.inputs.shared) == (before.inputs.every, before.inputs.shared)


def test_the_secret_that_pods_serve_tls_with_is_in_the_digest() -> None:
    runtime = a_runtime(metadata_annotations={"isvc-operator.io/settings": "TLS_DIR"})
    by_tls = a_resolved(runtime=runtime, config=a_config(service={"tlsSecretName": "certificates"}))

    assert by_tls.inputs.every != a_resolved(runtime=runtime).inputs.every


def test_a_secret_counts_by_its_keys_and_annotations_and_not_by_its_values() -> None:
    one, other_value, other_key, other_annotation = (
        a_resolved(context=context).inputs.every
        for context in (a_secret(key="1"), a_secret(key="2"), a_secret(other="1"), a_secret("b", key="1"))
    )

    assert one == other_value
    assert len({tuple(item.values()) for item in (one, other_key, other_annotation)}) == 3


def test_a_transformer_is_rendered_for_its_predictor_and_not_the_other_way_round() -> None:
    def of(**fields: Any) -> Any:
        return a_resolved(a_service(**fields)).inputs.every

    before = of(spec={"transformer": OWN})
    other_predictor = of(model={"args": ["--debug"]}, spec={"transformer": OWN})
    other_transformer = of(spec={"transformer": {**OWN, "minReplicas": 2}})

    assert before["predictor"] == BEFORE.inputs.every["predictor"] == other_transformer["predictor"]
    assert before["transformer"] not in (other_predictor["transformer"], other_transformer["transformer"])
