"""Moving over from KServe: its samples apply, and our CRDs take the place of its own with objects stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from isvc.crds import RESOURCES, build_crd
from isvc_operator.api.inference_service import API_VERSION, KIND
from isvc_operator.api.parsing import parse_inference_service, parse_serving_runtime, parse_storage_container
from isvc_operator.controller.gather import read_service
from isvc_operator.ignored.walker import unknown_fields
from tests.support.apiserver import ApiServer, install_crds, running
from tests.support.refused_documents import TOO_LONG
from tests.support.sample_services import OLD_FIELD_NAMES, model, service


def documents(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.rglob("*.yaml")):
        text = path.read_text().replace("{username}", "user")  # the one placeholder that is not YAML
        yield from (document for document in yaml.safe_load_all(text) if document)


def renamed(manifest: dict[str, Any]) -> dict[str, Any]:
    """The object under a name, and in a namespace, where it is in nobody's way."""
    return manifest | {"metadata": {"generateName": "sample-"}}


def test_every_sample_service_of_kserve_comes_back_unchanged(apiserver: ApiServer, kserve: Path) -> None:
    samples = [
        document
        for document in documents(kserve / "docs" / "samples" / "v1beta1")
        if (document["apiVersion"], document["kind"]) == (API_VERSION, KIND)
    ]
    found = apiserver.dry_run(*map(renamed, samples))
    assert [item["spec"] for item in found] == [sample["spec"] for sample in samples]
    assert len(found) > 50
    slips = [slip for item in found for slip in unknown_fields(parse_inference_service(item))]
    # One of the samples really has it beside the predictor.
    assert slips == ["spec.nodeName (it belongs in spec.predictor)"]


def test_every_runtime_of_kserve_comes_back_unchanged(apiserver: ApiServer, kserve: Path) -> None:
    runtimes = [item for item in documents(kserve / "config" / "runtimes") if item["kind"] == "ClusterServingRuntime"]
    found = apiserver.dry_run(*map(renamed, runtimes))
    assert [item["spec"] for item in found] == [runtime["spec"] for runtime in runtimes]
    assert len(found) > 10
    assert [unknown_fields(parse_serving_runtime(item)) for item in found] == [[] for _ in found]


def test_the_storage_container_of_kserve_comes_back_unchanged(apiserver: ApiServer, kserve: Path) -> None:
    every = documents(kserve / "config" / "storagecontainers")
    (container,) = [item for item in every if item.get("kind") == "ClusterStorageContainer"]
    (found,) = apiserver.dry_run(renamed(container))
    assert found["spec"] == container["spec"]
    assert parse_storage_container(found).spec.as_dict() == container["spec"]


# Stored under KServe's CRDs: the first cannot be refused any more, the second breaks rules of ours.
NAME_TOO_LONG = service("a" * 60, predictor=model())
OUT_OF_BOUNDS = service("out-of-bounds", predictor=model() | {"minReplicas": 3, "maxReplicas": 1})


@pytest.fixture(params=["full", "minimal"])
def with_kserve(request: pytest.FixtureRequest, assets: Path, kserve: Path) -> Iterator[ApiServer]:
    """An API server with one of KServe's two sets of CRDs, installed by somebody else's tool."""
    folder = kserve / "config" / "crd" / request.param
    with running(assets) as server:
        files = [next(folder.rglob(f"serving.kserve.io_{resource.plural}.yaml")) for resource in RESOURCES]
        install_crds(server, *files, manager="helm")
        yield server


def without_bookkeeping(item: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {**item, "metadata": metadata}


def test_our_crds_take_the_place_of_kserves_and_its_objects_stay(with_kserve: ApiServer) -> None:
    server = with_kserve
    for manifest in (OLD_FIELD_NAMES, NAME_TOO_LONG, OUT_OF_BOUNDS):
        server.kubectl("create", "--filename=-", stdin=json.dumps(manifest))
    before = server.get("isvc")["items"]

    install_crds(server)

    versions = {item["metadata"]["name"]: item["spec"]["versions"] for item in server.crds()}
    assert versions == {resource.name: build_crd(resource)["spec"]["versions"] for resource in RESOURCES}
    after = server.get("isvc")["items"]
    behind = {"status": {"observedGeneration": -1}}  # which no operator has seen
    assert [without_bookkeeping(item) for item in after] == [without_bookkeeping(item) | behind for item in before]
    for item in after:
        name = item["metadata"]["name"]
        patch = json.dumps({"status": {"url": f"http://{name}"}})
        server.kubectl("patch", "isvc", name, "--subresource=status", "--type=merge", f"--patch={patch}")
        server.kubectl("label", "isvc", name, "team=vision")
    items = server.get("isvc")["items"]
    assert [item["status"]["url"] for item in items] == [f"http://{item['metadata']['name']}" for item in after]
    problems = {item["metadata"]["name"]: read_service(item)[1] for item in items}
    assert {
        name: problem and problem.message.partition(" is not valid: ")[2] for name, problem in problems.items()
    } == {
        OLD_FIELD_NAMES["metadata"]["name"]: None,
        NAME_TOO_LONG["metadata"]["name"]: f"metadata.name: 60 {TOO_LONG}",
        OUT_OF_BOUNDS["metadata"]["name"]: "spec.predictor.minReplicas: greater than maxReplicas; raise "
        "maxReplicas or lower minReplicas",
    }
