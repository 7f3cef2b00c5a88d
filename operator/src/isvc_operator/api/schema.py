"""Structural OpenAPI schemas of a CustomResourceDefinition, made from the models of the API, and the rules in them.

Pydantic generates JSON Schema. Kubernetes supports a subset of it, without references, and has its own extensions for
unknown fields and for rules across several fields.

Rules are evaluated as the API server does: the same CEL, by the C++ implementation of the language. The API server
evaluates them only when an object is written. An object may be older than a rule, or stored under a CRD without it,
such as KServe's (docs/decisions/0039-rules-are-evaluated-twice.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from isvc_operator.api.base import ApiModel, field_names, name_in
from isvc_operator.api.core_fields import ContainerFields, PodSpecFields
from isvc_operator.api.parsing import InvalidObject
from isvc_operator.api.rules import rules_of
from isvc_operator.api.serving_runtime import RuntimePodSpec
from isvc_operator.limits import NAMED

if TYPE_CHECKING:
    from cel_expr_python import cel

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
                for name in field_names(fields).keys() & result["properties"]:
                    result["properties"][name].setdefault("description", f"kubectl explain {place}.{name}")
        rules = rules_of(model)
        return result | {"x-kubernetes-validations": [rule.as_dict() for rule in rules]} if rules else result

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])  # absent is not null in a structural schema


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


@dataclass(frozen=True)
class BrokenRule:
    """A rule that an object does not keep: the path of the field, and what is wrong with it."""

    path: str
    message: str


def check_rules(model: type[ApiModel], body: Mapping[str, Any]) -> None:
    """Raise InvalidObject if an object that was parsed as ``model`` does not keep the rules for it."""
    schema = _schema(model)
    broken = broken_rules(schema, declared(schema, {name: body[name] for name in ("metadata", "spec")}))
    if problems := [f"{rule.path}: {rule.message}" for rule in islice(broken, NAMED)]:
        raise InvalidObject(model.__name__, name_in(body), problems)


def broken_rules(schema: Schema, value: Any, path: str = "") -> Iterator[BrokenRule]:
    """Yield the rules that a valid value, as ``declared`` returns it, does not keep as a new one."""
    rules = schema.get("x-kubernetes-validations", ())
    variables = _environment().Activation({"self": value, "oldSelf": None}) if rules else None
    for rule in rules:
        if message := _broken(rule, variables):
            yield BrokenRule(f"{path}{rule.get('fieldPath', '')}".removeprefix("."), message)
    if isinstance(value, Mapping):
        fields, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        for name, item in value.items():
            yield from broken_rules(fields.get(name, others), item, f"{path}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from broken_rules(schema.get("items", {}), item, f"{path}[{index}]")


def declared(schema: Schema, value: Any) -> Any:
    """Return the part of a value that the schema declares, which is all that rules see, with the schema's defaults.

    Null fields are absent, as in a stored object. Numbers and texts are within CEL's bounds.
    """
    if isinstance(value, Mapping):
        fields, others = schema.get("properties", {}), schema.get("additionalProperties")
        given = {_text(str(name)): item for name, item in value.items() if item is not None}
        defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
        return {
            name: declared(fields.get(name, others), item)
            for name, item in (defaults | given).items()
            if name in fields or others
        }
    if isinstance(value, list):
        return [declared(schema.get("items", {}), item) for item in value]
    if isinstance(value, str):
        return _text(value)
    return min(max(value, -(2**63)), 2**63 - 1) if isinstance(value, int) else value


def _text(text: str) -> str:
    return text.encode(errors="replace").decode()


def _broken(rule: Mapping[str, str], variables: cel.Activation | None) -> str | None:
    """Return the message of a rule that does not hold, or whose evaluation fails."""
    if _program(rule["rule"]).eval(variables).value() is True:
        return None
    if "messageExpression" in rule:
        return str(_program(rule["messageExpression"]).eval(variables).value())
    return rule["message"]


@cache
def _schema(model: type[ApiModel]) -> Schema:
    return structural_schema(model)


@cache
def _program(expression: str) -> cel.Expression:
    return _environment().compile(expression)


@cache
def _environment() -> cel.Env:
    from cel_expr_python import cel  # here, because commands that check nothing start without it
    from cel_expr_python.ext import ext_strings

    anything = cel.Type.DYN
    functions = [
        # Kubernetes adds it to CEL.
        _method("sum", cel.Type.List(anything), anything, sum),
        # Of the old object, which a new one does not have.
        _method("hasValue", anything, cel.Type.BOOL, lambda _: False),
    ]
    return cel.NewEnv(
        variables={"self": anything, "oldSelf": anything}, extensions=[ext_strings.ExtStrings()], functions=functions
    )


def _method(name: str, of: cel.Type, result: cel.Type, function: Callable[..., Any]) -> cel.FunctionDecl:
    from cel_expr_python import cel

    return cel.FunctionDecl(name, [cel.Overload(name, result, [of], True, function)])
