"""Structural OpenAPI schemas of a CustomResourceDefinition, generated from the models of the API.

Pydantic generates JSON Schema. Kubernetes supports a subset of it, without references, and has its own extensions for
unknown fields and for rules across several fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from isvc_operator.api.base import ApiModel, field_names
from isvc_operator.api.core_fields import ContainerFields, PodSpecFields
from isvc_operator.api.rules import rules_of
from isvc_operator.api.serving_runtime import RuntimePodSpec

Schema = dict[str, Any]

# The argument of `kubectl explain` for fields of core/v1 types.
_EXPLAINED: Final[Mapping[type[ApiModel], tuple[type[ApiModel], str]]] = {
    PodSpecFields: (PodSpecFields, "pod.spec"),
    RuntimePodSpec: (PodSpecFields, "pod.spec"),
    ContainerFields: (ContainerFields, "pod.spec.containers"),
}


def structural_schema(model: type[ApiModel]) -> Schema:
    """Return the schema of `model`, with all references resolved."""
    document = model.model_json_schema(schema_generator=_Generator)
    return _structural(document, document.get("$defs", {}))


class _Generator(GenerateJsonSchema):
    """Adds Kubernetes' extensions, which depend on the model's class."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        model = schema["cls"]
        result = super().model_schema(schema)
        for base, (fields, place) in _EXPLAINED.items():
            if issubclass(model, base):
                _point_to(place, field_names(fields), result["properties"])
        rules = rules_of(model)
        return result | {"x-kubernetes-validations": [rule.as_dict() for rule in rules]} if rules else result

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])  # absent is not null in a structural schema


def _point_to(place: str, names: Iterable[str], properties: dict[str, Schema]) -> None:
    for name in names:
        if name in properties:
            properties[name].setdefault("description", f"kubectl explain {place}.{name}")


def _structural(node: Schema, definitions: Mapping[str, Schema]) -> Schema:
    if "$ref" in node:
        named = definitions[node["$ref"].rpartition("/")[2]]
        node = named | {key: value for key, value in node.items() if key != "$ref"}
    schema = {key: value for key, value in node.items() if key not in ("title", "default", "$defs")}
    default = node.get("default")
    if default and isinstance(default, str | int):  # an empty default would change stored objects without need
        schema["default"] = default
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    if "items" in node:
        schema["items"] = _structural(node["items"], definitions)
    if "properties" in node:
        schema["properties"] = {
            name: _structural(value, definitions) for name, value in sorted(node["properties"].items())
        }
    match schema.pop("additionalProperties", None):
        case True:
            schema["x-kubernetes-preserve-unknown-fields"] = True
        case dict(values):
            schema["additionalProperties"] = _structural(values, definitions)
    return schema
