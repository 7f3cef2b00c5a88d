"""The second story from S3 and Google Cloud Storage, with secrets on a service account; and what cannot be brought.

The stores run on this machine. S3 checks signatures; before the one of Google stands a guard that wants the access
token of the service account's key.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster.services_page import ServicesPage
from tests.support.cluster import HTTP, RealCluster, curl
from tests.support.credentials import a_secret, an_account, s3_annotations
from tests.support.diagnose_output import assert_diagnosed
from tests.support.forwarding import address_seen_from, forwarded, node_address
from tests.support.namespace import Namespace
from tests.support.object_stores import fake_gcs, versitygw
from tests.support.object_stores.identities import bearer, service_account, token_endpoint
from tests.support.object_stores.proxy import Decide, Slow, is_object, proxy
from tests.support.waiting import eventually

BUCKET, MODEL = "models", "image_classifier"
WITHIN = 180.0  # seconds; the pods of other tests may fill the node for a while
SLOW = 200_000  # bytes a second


@dataclass(frozen=True)
class Stores:
    """As the pods see them. ``google_key`` is the JSON file of the account that may read."""

    address: str
    s3_port: int
    slow_s3_port: int
    gcs_port: int
    google_key: str


@pytest.fixture(scope="module")
def stores(cluster: RealCluster, images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    home = tmp_path_factory.mktemp("stores")
    address = address_seen_from(node_address(cluster))
    model = images / MODEL
    files = {str(path.relative_to(model)): path.read_bytes() for path in sorted(model.rglob("*.*"))}
    with contextlib.ExitStack() as stack:
        s3 = stack.enter_context(versitygw.running(home / "s3"))
        gcs = stack.enter_context(fake_gcs.running(home / "gcs", public_host=address))
        for store in (s3, gcs):
            store.create_bucket(BUCKET)
            store.put_tree(BUCKET, MODEL, files)

        def published(url: str) -> int:
            return stack.enter_context(forwarded(address, int(url.rpartition(":")[2])))

        # The account's file names the address of the service that checks the account's signature.
        endpoint: list[Decide] = []
        tokens = stack.enter_context(proxy(None, lambda request: endpoint[0](request)))
        uri = f"http://{address}:{published(tokens.url)}/token"
        account = service_account(home / "account.json", uri)
        endpoint.append(token_endpoint(account))
        guard = stack.enter_context(proxy(gcs.url, bearer()))
        slow = stack.enter_context(proxy(s3.url, lambda request: Slow(SLOW) if is_object(request) else None))
        yield Stores(
            address=address,
            s3_port=published(s3.url),
            slow_s3_port=published(slow.url),
            gcs_port=published(guard.url),
            google_key=account.file.read_text(),
        )


@pytest.fixture(scope="module")
def credentials(cluster: RealCluster, namespace: Namespace, stores: Stores) -> Iterator[None]:
    """Service accounts with secrets: three that may read, and one that cannot."""

    def at(port: int) -> dict[str, str]:
        return s3_annotations(endpoint=f"{stores.address}:{port}", usehttps="0", region=versitygw.REGION)

    wrong = versitygw.Keys(versitygw.OWNER.access, "another-secret")
    secrets = {
        "s3-reader": a_secret("s3-reader", keys(versitygw.OWNER), annotations=at(stores.s3_port)),
        "s3-slow": a_secret("s3-slow", keys(versitygw.OWNER), annotations=at(stores.slow_s3_port)),
        "s3-stranger": a_secret("s3-stranger", keys(wrong), annotations=at(stores.s3_port)),
        "gcs-reader": a_secret("gcs-reader", {"gcloud-application-credentials.json": stores.google_key}),
    }
    for name, secret in secrets.items():
        apply(namespace, secret, an_account(name, name=name))
    # Who has an emulator tells all downloads from its bucket about it.
    container = {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ClusterStorageContainer",
        "metadata": {"name": f"{namespace.name}-emulator"},
        "spec": {
            "container": {
                "name": "storage-initializer",
                "env": [{"name": "STORAGE_EMULATOR_HOST", "value": f"http://{stores.address}:{stores.gcs_port}"}],
            },
            "supportedUriFormats": [{"prefix": f"gs://{BUCKET}/"}],
        },
    }
    cluster.kubectl("apply", "--filename=-", stdin=json.dumps(container))
    yield
    cluster.kubectl("delete", "clusterstoragecontainer", f"{namespace.name}-emulator")


def keys(user: versitygw.Keys) -> dict[str, str]:
    return {"AWS_ACCESS_KEY_ID": user.access, "AWS_SECRET_ACCESS_KEY": user.secret}


def apply(namespace: Namespace, *objects: Mapping[str, Any]) -> None:
    """Apply objects of the builders, whose namespace is another one."""
    namespace.apply(*({**item, "metadata": {**item["metadata"], "namespace": namespace.name}} for item in objects))


def serve(namespace: Namespace, name: str, uri: str, account: str) -> None:
    """The service of the second story, with the field names of old."""
    resources = {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
    metadata = {"name": name, "annotations": {"isvc-operator.io/runtime": "isvc-mar"}}
    predictor = {"serviceAccountName": account, "pytorch": {"storageUri": uri, "resources": resources}}
    service = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": metadata}
    namespace.apply({**service, "spec": {"predictor": predictor}})


SOURCES = {
    "s3": (f"s3://{BUCKET}/{MODEL}", "s3-reader", f"access key {versitygw.OWNER.access}"),
    "gs": (f"gs://{BUCKET}/{MODEL}", "gcs-reader", "models@project.example.com"),
}


@pytest.mark.parametrize(("uri", "account", "identity"), SOURCES.values(), ids=SOURCES.keys())
def test_a_model_in_a_bucket_is_served(
    namespace: Namespace, credentials: None, stores: Stores, images: Path, uri: str, account: str, identity: str
) -> None:
    serve(namespace, account, uri, account)
    namespace.wait_for_condition("Ready", "True", service=account, within=WITHIN)

    digits = json.loads((images / "samples.json").read_text())["mnist"]
    body = json.dumps({"instances": [{"data": digit["image"]} for digit in digits]})
    host = f"Host: {account}.{namespace.name}.example.com"
    ask = ("-X", "POST", "-H", host, f"{HTTP}/v1/models/mnist:predict", "--data-binary", body)
    answer = eventually(lambda: found if (found := curl(*ask)).status == 200 else None, "the ingress has the route")
    assert answer.json == {"predictions": [digit["digit"] for digit in digits]}

    log = namespace.kubectl("logs", f"deployment/{account}-predictor", "--container=storage-initializer")
    assert f"{uri} → /mnt/models" in log
    assert identity in log
    assert versitygw.OWNER.secret not in log
    assert "PRIVATE KEY" not in log
    namespace.kubectl("delete", "isvc", account, "--wait=false")


def test_how_far_a_download_is_stands_on_the_resource(namespace: Namespace, credentials: None) -> None:
    serve(namespace, "slow", f"s3://{BUCKET}/{MODEL}", "s3-slow")

    def told() -> str | None:
        condition = namespace.condition("Ready", "slow")
        share = re.search(r"copying the model: \d+ % of .*/s, .* left", condition.get("message", ""))
        return condition["reason"] if share else None

    reason = eventually(
        told,
        "the share, the rate and the time left are told",
        within=WITHIN,
        otherwise=lambda: str(namespace.condition("Ready", "slow")),
    )
    assert reason == "LoadingModel"
    namespace.kubectl("delete", "isvc", "slow", "--wait=false")


def test_what_cannot_be_brought_is_told(namespace: Namespace, page: ServicesPage, credentials: None) -> None:
    name, uri = "wrong-key", f"s3://{BUCKET}/{MODEL}"
    complaint = f"access key {versitygw.OWNER.access}: the secret key does not belong to it"
    serve(namespace, name, uri, "s3-stranger")
    namespace.wait_for_condition("Ready", "False", "StorageInitializerFailed", name, WITHIN)

    text = " ".join(namespace.kubectl("describe", "isvc", name).split())
    page.shows(name, "StorageInitializerFailed", uri, complaint)
    assert_diagnosed(namespace, name, "StorageInitializerFailed", uri, complaint, log=True)

    for word in (uri, "container storage-initializer ended with exit code", complaint):
        assert word in text
    assert "Warning StorageInitializerFailed" in text  # the Event
    assert "another-secret" not in text
    namespace.kubectl("delete", "isvc", name, "--wait=false")
