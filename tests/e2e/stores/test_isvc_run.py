"""``isvc run`` with a model in a bucket or on a hub: by secrets in the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.isvc_process import Sandbox
from tests.support.local_services import runtime, service, write_yaml
from tests.support.object_stores import hub, versitygw
from tests.support.object_stores.versitygw import OWNER, S3Server

ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}, "secrets": [{"name": "s3"}]}
URI = "s3://models/fake"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Has the bucket ``models`` with one file for the fake runtime."""
    with versitygw.running(tmp_path_factory.mktemp("s3")) as server:
        server.create_bucket("models")
        server.put("models", "fake/weights", b"1 2 3")
        yield server


def secret(store: S3Server) -> dict[str, Any]:
    settings = {"endpoint": store.url.removeprefix("http://"), "usehttps": "0", "region": versitygw.REGION}
    annotations = {f"serving.kserve.io/s3-{name}": text for name, text in settings.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s3", "annotations": annotations},
        "stringData": {"AWS_ACCESS_KEY_ID": OWNER.access, "AWS_SECRET_ACCESS_KEY": OWNER.secret},
    }


def test_a_secret_in_the_file_opens_the_bucket(sandbox: Sandbox, store: S3Server) -> None:
    file = write_yaml(sandbox.folder / "services.yaml", service(uri=URI), runtime(), ACCOUNT, secret(store))
    done = sandbox.run(file, "--request", sandbox.folder / "request.json", "--verbose")

    assert (done.returncode, '{"predictions": [1, 2],' in done.stdout) == (0, True), done.stderr
    assert f"first/storage-initializer | {URI} → " in done.stderr
    assert f"access key {OWNER.access}" in done.stderr
    assert OWNER.secret not in done.stderr
    assert list(sandbox.temporary.iterdir()) == []


def test_a_model_comes_from_a_hub_as_on_a_cluster(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    token = {**ACCOUNT, "secrets": [{"name": "hub"}]}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub"}, "stringData": {"HF_TOKEN": hub.TOKEN}}
    with hub.running() as server:
        server.put("org/fake", {"weights": b"1 2 3"}, private=True)
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        file = write_yaml(sandbox.folder / "services.yaml", service(uri="hf://org/fake"), runtime(), token, secret)
        done = sandbox.run(file, "--request", sandbox.folder / "request.json", "--verbose")

    assert (done.returncode, '{"predictions": [1, 2],' in done.stdout) == (0, True), done.stderr
    assert f"with the token in HF_TOKEN, endpoint {server.url}, commit " in done.stderr
    assert hub.TOKEN not in done.stderr
