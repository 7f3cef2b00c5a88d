"""The table of core/v1 fields must not fall behind the Kubernetes client that we install."""

from __future__ import annotations

import importlib

import pytest

from isvc_operator.api.base import ApiModel, field_names
from isvc_operator.api.core_fields import ContainerFields, PodSpecFields
from isvc_operator.api.schema import structural_schema

JSON_TYPES = {"str": "string", "int": "integer", "bool": "boolean"}


def json_type(python_type: str) -> str:
    return "array" if python_type.startswith("List[") else JSON_TYPES.get(python_type, "object")


@pytest.mark.parametrize(("model", "name"), [(PodSpecFields, "V1PodSpec"), (ContainerFields, "V1Container")])
def test_names_and_types_are_those_of_the_kubernetes_client(model: type[ApiModel], name: str) -> None:
    core = getattr(importlib.import_module("kubernetes.client"), name)  # 700 modules, of which the others need none
    theirs = {core.attribute_map[name]: json_type(kind) for name, kind in core.openapi_types.items()}
    ours = {name: schema["type"] for name, schema in structural_schema(model)["properties"].items()}
    assert ours == theirs
    assert set(field_names(model)) == set(theirs)
