"""What the API server would say of an object in a file: the schema of its CRD, and its rules. Pure.

The messages are the API server's own, so that they can be searched for; ``tests/integration/crds/test_refusing.py``
compares them with those of a real one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from isvc.crds import RESOURCES, schema_of
from isvc_operator.api.parsing import path_of
from isvc_operator.api.schema import Schema, broken_rules, declared

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

_RESOURCES: Final = {resource.kind: resource for resource in RESOURCES}
# With one of these errors, the API server does not evaluate the rules.
_BEFORE_RULES: Final = frozenset({"required", "type", "enum", "maxLength", "maxItems"})
_RULES_SKIPPED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)
MISSING: Final = "Required value"
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


def refusals(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield why the API server would refuse to create the object, as ``path: reason``; for other kinds nothing."""
    resource = _RESOURCES.get(body["kind"])
    if resource is None:
        return
    yield from _of_metadata(body.get("metadata"))
    schema = _schema(resource.kind)
    value = declared(schema, {name: item for name, item in body.items() if name != "status"})
    kinds = set()
    for error in _validator(resource.kind).iter_errors(value):
        kinds.add(error.kind.name)
        yield said(error)
    if kinds & _BEFORE_RULES:
        yield _RULES_SKIPPED
    else:
        yield from (f'{rule.path}: Invalid value: "object": {rule.message}' for rule in broken_rules(schema, value))


def _of_metadata(metadata: Any) -> Iterator[str]:
    """Yield what is wrong with the name, the labels and the annotations, which no CRD defines."""
    if not isinstance(metadata, Mapping):
        return
    if not re.fullmatch(SUBDOMAIN, str(metadata.get("name"))):
        yield (
            f"metadata.name: Invalid value: {_quoted(metadata.get('name'))}: write lower-case letters, digits, '-' and "
            "'.', with a letter or a digit first and last"
        )
    for field in ("labels", "annotations"):
        given = metadata.get(field)
        for key, value in given.items() if isinstance(given, Mapping) else ():
            if not _KEY.fullmatch(str(key).lower() if field == "annotations" else str(key)):
                yield f"metadata.{field}: Invalid value: {_quoted(key)}: not a valid key, such as example.com/my-name"
            if field == "labels" and isinstance(value, str) and not _LABEL.fullmatch(value):
                yield (
                    f"metadata.labels: Invalid value: {_quoted(value)}: write at most 63 letters, digits, '-', '_' and "
                    "'.', with a letter or a digit first and last"
                )


def said(error: ValidationError) -> str:
    """Return what the API server says of a value that its schema does not allow."""
    value: Any = error.instance
    kind: Any = error.kind
    rule = kind.value
    path = path_of([*error.instance_path, rule] if kind.name == "required" else error.instance_path)
    match kind.name:
        case "required":
            what = MISSING
        case "enum":
            what = f"Unsupported value: {_quoted(value)}: supported values: {', '.join(map(_quoted, rule))}"
        case "maxLength":
            what = f"Too long: may not be more than {rule} bytes"
        case "additionalProperties":
            what = f"unknown field {', '.join(map(_quoted, kind.unexpected))}"
        case "propertyNames":
            what = f"Invalid value: {_quoted(kind.error.instance)}: not a valid key, such as example.com/my-name"
        case "anyOf":
            what = f"Invalid value: {_quoted(value)}"
        case "minItems":
            what = MISSING
        case "maxItems":
            what = f"Too many: {len(value)}: must have at most {rule} items"
        case "type":
            types = ",".join(name for name in rule if name != "null")
            what = f'Invalid value: "{_type(value)}": {path} in body must be of type {types}: "{_type(value)}"'
        case bound:
            what = f"Invalid value: {_quoted(value)}: {path} in body should {_BOUNDS[bound].format(rule)}"
    return f"{path}: {what}" if path else what


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
