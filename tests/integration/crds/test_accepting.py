"""What the API server takes, and that it gives it back as it was."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from isvc_operator.api.parsing import parse_inference_service, parse_serving_runtime
from isvc_operator.ignored.walker import unknown_fields
from tests.support.apiserver import ApiServer
from tests.support.sample_services import ACCEPTED, OLD_FIELD_NAMES, model, service

ROOT = Path(__file__).parents[3]
STORY = yaml.safe_load((ROOT / "examples" / "bert" / "inferenceservice.yaml").read_text())


@pytest.mark.parametrize("manifest", [STORY, *ACCEPTED], ids=lambda manifest: manifest["metadata"]["name"])
def test_a_service_comes_back_unchanged(apiserver: ApiServer, namespace: str, manifest: dict[str, Any]) -> None:
    found = apiserver.apply(namespace, manifest)
    assert found["spec"] == manifest["spec"]
    read = parse_inference_service(found)
    assert (read.spec.model_dump(exclude_unset=True), unknown_fields(read)) == (manifest["spec"], [])


def test_the_shipped_runtimes_come_back_unchanged(apiserver: ApiServer) -> None:
    files = sorted((ROOT / "manifests" / "runtimes").glob("kserve-*.yaml"))
    runtimes = [yaml.safe_load(file.read_text()) for file in files]
    found = apiserver.dry_run(*(runtime | {"metadata": {"generateName": "shipped-"}} for runtime in runtimes))
    assert [item["spec"] for item in found] == [runtime["spec"] for runtime in runtimes]
    assert [unknown_fields(parse_serving_runtime(item)) for item in found] == [[] for _ in files]


def test_an_unknown_field_is_kept_at_every_level(apiserver: ApiServer, namespace: str) -> None:
    predictor = model(storageURI="pvc://a", modelFormat={"name": "pytorch", "flavour": "mnist"})
    manifest = service("slips", predictor=predictor | {"minReplica": 1, "batcher": {"size": 8}}, predictr={})
    found = apiserver.apply(namespace, manifest)
    assert found["spec"] == manifest["spec"]
    assert unknown_fields(parse_inference_service(found)) == [
        "spec.predictr (did you mean predictor?)",
        "spec.predictor.minReplica (did you mean minReplicas?)",
        "spec.predictor.batcher.size",
        "spec.predictor.model.storageURI (did you mean storageUri?)",
        "spec.predictor.model.modelFormat.flavour",
    ]


def test_a_client_may_merge_an_old_field_name_onto_a_stored_model(apiserver: ApiServer, namespace: str) -> None:
    name = OLD_FIELD_NAMES["metadata"]["name"]
    apiserver.apply(namespace, service(name, predictor=model()))
    patch = json.dumps({"spec": OLD_FIELD_NAMES["spec"]})
    apiserver.kubectl("patch", "isvc", name, f"--namespace={namespace}", "--type=merge", f"--patch={patch}")
    found = apiserver.get("isvc", name, f"--namespace={namespace}")
    assert found["spec"]["predictor"] == model() | OLD_FIELD_NAMES["spec"]["predictor"]


def test_several_downloads_get_the_folder_that_kserve_gives_them(apiserver: ApiServer, namespace: str) -> None:
    predictor = {"model": {"modelFormat": {"name": "pytorch"}}, "storageUris": [{"uri": "s3://a/b"}]}
    expected = copy.deepcopy(predictor)
    expected["storageUris"] = [{"uri": "s3://a/b", "mountPath": "/mnt/models"}]
    found = apiserver.apply(namespace, service("downloads", predictor=predictor))
    assert found["spec"]["predictor"] == expected
