"""What storage refers to: accounts, secrets and certificates."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.config import parse_config
from isvc_operator.errors import InvalidCredentials
from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.requests import path_of
from tests.support.builders import NAMESPACE, a_runtime_body, a_service_body
from tests.support.credentials import a_config_map, a_secret, an_account, s3_annotations
from tests.support.reconcile_fixture import FIRST_CALLS, Cluster, cluster_with, first_update

READS = ["GET serviceaccounts/default", "GET secrets/s3"]


@pytest.fixture
def in_s3() -> Cluster:
    """A service whose model is in S3, with the secret of its account."""
    cluster = cluster_with(a_service_body(model={"storageUri": "s3://models/bert"}), a_runtime_body())
    cluster.api.put(an_account("s3"))
    cluster.api.put(a_secret("s3", annotations=s3_annotations(region="eu-west-1")))
    return cluster


def initializer_env(cluster: Cluster) -> dict[str, Any]:
    (initializer,) = cluster.child("Deployment")["spec"]["template"]["spec"]["initContainers"]
    return {item["name"]: item.get("value") for item in initializer["env"]}


async def test_a_model_on_a_claim_reads_nothing_by_name_and_is_not_requeued(serving: Cluster) -> None:
    assert [call.path for call in serving.api.calls if call.method == "GET"] == []
    assert serving.again is None


async def test_a_changed_secret_is_seen_at_the_next_resync(in_s3: Cluster) -> None:
    await in_s3.reconcile()
    in_s3.api.put(a_secret("s3", annotations=s3_annotations(region="us-east-1")))
    assert in_s3.again == 300.0
    in_s3.seconds.passed = in_s3.again

    assert await in_s3.reconcile() == [*READS, *first_update("deployments/torchserve-predictor"), "POST events"]

    assert initializer_env(in_s3)["AWS_DEFAULT_REGION"] == "us-east-1"


async def test_an_invalid_secret_is_reported_in_a_condition_and_retried(in_s3: Cluster) -> None:
    in_s3.api.put(a_secret("s3", {"AWS_SECRET_ACCESS_KEY": "the-secret"}))

    with pytest.raises(InvalidCredentials):
        await in_s3.reconcile()

    ready = in_s3.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "InvalidCredentials")
    assert ready["message"].startswith("secret s3 lacks the key AWS_ACCESS_KEY_ID; add it, or annotate")
    model = in_s3.service["status"]["modelStatus"]
    assert (model["transitionStatus"], model["lastFailureInfo"]["reason"]) == ("BlockedByFailedLoad", "ModelLoadFailed")


async def test_a_secret_that_cannot_be_read_for_a_moment_leaves_the_status_alone(in_s3: Cluster) -> None:
    await in_s3.reconcile()
    before = in_s3.service["status"]
    in_s3.api.failing["GET", path_of("Secret", NAMESPACE, "s3")] = KubeError(0, "no response from the API server")
    in_s3.seconds.passed = 300.0

    with pytest.raises(KubeError):
        await in_s3.reconcile()
    assert in_s3.service["status"] == before

    with pytest.raises(KubeError):
        await in_s3.reconcile(failures=4)
    assert in_s3.condition("Ready")["reason"] == "ReconcileFailed"
    assert in_s3.service["status"]["url"] == before["url"]


async def test_a_broken_secret_leaves_what_runs_alone(in_s3: Cluster) -> None:
    await in_s3.reconcile()
    before = in_s3.child("Deployment")
    in_s3.api.put(a_secret("s3", {"AWS_SECRET_ACCESS_KEY": "the-secret"}))
    in_s3.seconds.passed = 300.0

    with pytest.raises(InvalidCredentials):
        await in_s3.reconcile()

    assert in_s3.child("Deployment") == before


async def test_the_administrators_certificates_come_to_the_namespace_before_the_pod_does() -> None:
    config = parse_config({"storageInitializer": '{"caBundleConfigMapName": "corporate"}'})
    service = a_service_body(model={"storageUri": "https://models.example.com/m.mar"})
    cluster = cluster_with(service, a_runtime_body(), config=config)
    cluster.api.put(a_config_map("corporate", "isvc-system", **{"cabundle.crt": "PEM"}))

    calls = await cluster.reconcile()

    assert calls.index("PATCH configmaps/global-ca-bundle") < calls.index(FIRST_CALLS[0])
    assert (cluster.api.get("ConfigMap", NAMESPACE, "global-ca-bundle") or {})["data"] == {"cabundle.crt": "PEM"}
    assert await cluster.reconcile() == []
