"""What the API server would say of an object in a file: the schema of its CRD, and its rules. Pure.

``tests/integration/crds/test_refusing.py`` compares it with what a real one says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from isvc.crds import RESOURCES, schema_of
from isvc.run.mistake import Fault, Mistake, missing, unknown
from isvc_operator.api.core_shapes import QUANTITY_SCHEMA
from isvc_operator.api.parsing import path_of
from isvc_operator.api.schema import Schema, broken_rules, declared
from isvc_operator.ignored.walker import suggestion

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

_RESOURCES: Final = {resource.kind: resource for resource in RESOURCES}
# With one of these errors, the API server does not evaluate the rules.
_BEFORE_RULES: Final = frozenset({"required", "type", "enum", "maxLength", "maxItems"})
_TYPES: Final = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
_BOUNDS: Final = {
    "minimum": "be greater than or equal to {}",
    "maximum": "be less than or equal to {}",
    "minLength": "be at least {} chars long",
    "pattern": "match '{}'",
}

SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME: Final = r"([A-Za-z0-9]|[A-Za-z0-9][-A-Za-z0-9_.]{0,61}[A-Za-z0-9])"
LABEL_KEY: Final = rf"(?:(?=[^/]{{1,253}}/){SUBDOMAIN}/)?{_NAME}"
LABEL_VALUE: Final = rf"{_NAME}?"
_KEY: Final = re.compile(LABEL_KEY)
_LABEL: Final = re.compile(LABEL_VALUE)
_NO_NAME: Final = "write lower-case letters, digits, '-' and '.', with a letter or a digit first and last"
_NO_VALUE: Final = "write at most 63 letters, digits, '-', '_' and '.', with a letter or a digit first and last"
_NO_KEY: Final = "not a valid key, such as example.com/my-name"


def refusals(body: Mapping[str, Any]) -> Iterator[Mistake]:
    """Yield why the API server would refuse to create the object; for other kinds nothing."""
    resource = _RESOURCES.get(body["kind"])
    if resource is None:
        return
    yield from _of_metadata(body.get("metadata"))
    schema = _schema(resource.kind)
    value = declared(schema, {name: item for name, item in body.items() if name != "status"})
    kinds = set()
    for error in _validator(resource.kind).iter_errors(value):
        kinds.add(error.kind.name)
        yield from mistakes_of(error, schema)
    if not kinds & _BEFORE_RULES:
        yield from (Mistake(rule.path, rule.message, Fault.RULE) for rule in broken_rules(schema, value))


def _of_metadata(metadata: Any) -> Iterator[Mistake]:
    """Yield what is wrong with the name, the labels and the annotations, which no CRD defines."""
    if not isinstance(metadata, Mapping):
        return
    if not re.fullmatch(SUBDOMAIN, str(metadata.get("name"))):
        yield Mistake("metadata.name", f"Invalid value: {_quoted(metadata.get('name'))}: {_NO_NAME}")
    for field in ("labels", "annotations"):
        given = metadata.get(field)
        for key, value in given.items() if isinstance(given, Mapping) else ():
            if not _KEY.fullmatch(str(key).lower() if field == "annotations" else str(key)):
                yield Mistake(f"metadata.{field}", f"Invalid value: {_quoted(key)}: {_NO_KEY}")
            if field == "labels" and isinstance(value, str) and not _LABEL.fullmatch(value):
                yield Mistake("metadata.labels", f"Invalid value: {_quoted(value)}: {_NO_VALUE}")


def mistakes_of(error: ValidationError, schema: Mapping[str, Any]) -> Iterator[Mistake]:
    """Yield what is wrong with a value that the schema does not allow."""
    value: Any = error.instance
    kind: Any = error.kind
    rule, path = kind.value, path_of(error.instance_path)
    match kind.name:
        case "required":
            yield missing(path_of([*error.instance_path, rule]))
        case "minItems":
            yield missing(path)
        case "type":
            wanted = ",".join(name for name in rule if name != "null")
            yield Mistake(path, f"must be of type {wanted}, not {_type(value)}", Fault.TYPE, wanted)
        case "additionalProperties":
            place: Any = schema
            for step in error.schema_path[:-1]:
                place = place[step]
            for name in kind.unexpected:
                yield unknown(path_of([*error.instance_path, name]), suggestion(name, place["properties"]))
        case "enum":
            near = suggestion(value, rule) if isinstance(value, str) else ""
            supported = ", ".join(map(_quoted, rule))
            yield Mistake(path, f"Unsupported value: {_quoted(value)}{near}: supported values: {supported}")
        case "maxLength":
            yield Mistake(path, f"Too long: may not be more than {rule} bytes")
        case "maxItems":
            yield Mistake(path, f"Too many: {len(value)}: must have at most {rule} items")
        case "propertyNames":
            yield Mistake(path, f"Invalid value: {_quoted(kind.error.instance)}: {_NO_KEY}")
        case "anyOf":
            yield Mistake(path, f"Invalid value: {_quoted(value)}")
        case "pattern" if rule == QUANTITY_SCHEMA["pattern"]:
            yield Mistake(path, f"Invalid value: {_quoted(value)}: not a quantity; write one such as 500m or 2Gi")
        case bound:
            yield Mistake(path, f"Invalid value: {_quoted(value)}: should {_BOUNDS[bound].format(rule)}")


def _type(value: Any) -> str:
    return _TYPES.get(type(value), "null")


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


@cache
def _schema(kind: str) -> Schema:
    return schema_of(_RESOURCES[kind])


@cache
def _validator(kind: str) -> Validator:
    from jsonschema_rs import Draft202012Validator  # here, because the operator does without it

    return Draft202012Validator(_json_schema(_schema(kind)))


def _json_schema(schema: Any) -> Any:
    """Return the schema as JSON Schema, without Kubernetes' extensions of it."""
    if isinstance(schema, list):
        return [_json_schema(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    plain = {name: _json_schema(item) for name, item in schema.items() if not name.startswith("x-kubernetes-")}
    if plain.get("nullable") is True:
        return plain | {"type": [plain["type"], "null"]}
    return plain | {"type": ["integer", "string"]} if "x-kubernetes-int-or-string" in schema else plain
