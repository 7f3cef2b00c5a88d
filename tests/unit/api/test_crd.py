"""The CRDs as files: up to date, complete, and small enough for kubectl."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from isvc.crds import RESOURCES, CustomResource, build_crd
from isvc_operator.api.schema import Schema
from tests.support.crds import main
from tests.support.yaml_files import document

CRDS = Path(__file__).parents[3] / "crds"
# kubectl apply without --server-side keeps the whole object in an annotation, which may hold this much.
ANNOTATION_LIMIT = 256 * 1024

by_name = pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.plural)


def root_schema(resource: CustomResource) -> Schema:
    schema: Schema = build_crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def properties(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    for name, value in schema.get("properties", {}).items():
        yield f"{path}.{name}", value
        yield from properties(value, f"{path}.{name}")
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if inner:
            yield from properties(inner, f"{path}[]")


def test_the_folder_holds_nothing_else() -> None:
    assert {path.name for path in CRDS.glob("*.yaml")} == {f"{resource.name}.yaml" for resource in RESOURCES}


def test_each_file_holds_a_crd(tmp_path: Path) -> None:
    main([str(tmp_path)])
    assert {file.stem: document(file) for file in tmp_path.iterdir()} == {one.name: build_crd(one) for one in RESOURCES}


@by_name
def test_kubectl_apply_can_keep_it_in_its_annotation(resource: CustomResource) -> None:
    written = json.dumps(build_crd(resource), separators=(",", ":"), ensure_ascii=False)
    escaped = re.sub("[&<>]", r"\\u0000", written)  # as Go writes them, six characters each
    assert len(f"kubectl.kubernetes.io/last-applied-configuration{escaped}".encode()) < ANNOTATION_LIMIT


@by_name
def test_every_field_is_explained(resource: CustomResource) -> None:
    described_by_kubernetes = {".apiVersion", ".kind", ".metadata", ".metadata.name"}
    said = {path: schema.get("description", "") for path, schema in properties(root_schema(resource))}
    explained_by_kubectl = tuple(path for path, text in said.items() if text.startswith("kubectl explain "))
    silent = {path for path, text in said.items() if not text and not path.startswith(explained_by_kubectl)}
    assert silent - described_by_kubernetes == set()


@by_name
def test_no_part_of_the_spec_drops_an_unknown_field(resource: CustomResource) -> None:
    dropping = {
        path
        for path, schema in properties(root_schema(resource))
        if schema.get("properties") and not schema.get("x-kubernetes-preserve-unknown-fields")
    }
    assert dropping == {".metadata"}
