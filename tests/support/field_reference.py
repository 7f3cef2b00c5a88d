"""`python -m tests.support.field_reference [--check]`: write docs/fields.md from the models of the API."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from isvc_operator.api.base import ApiModel, ObjectMeta, field_names
from isvc_operator.api.core_fields import ContainerFields, PodSpecFields
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.rule import Rule
from isvc_operator.api.rules import rules_of
from isvc_operator.api.schema import structural_schema
from isvc_operator.api.serving_runtime import ClusterServingRuntime
from isvc_operator.api.storage_container import ClusterStorageContainer

PAGE = Path(__file__).parents[2] / "docs" / "fields.md"
COMMAND = "python -m tests.support.field_reference"
ROOTS = (InferenceService, ClusterServingRuntime, ClusterStorageContainer)
# Their fields are Kubernetes' own: one line stands for all of them.
CORE: Mapping[type[ApiModel], str] = {
    PodSpecFields: "The fields of a Kubernetes PodSpec (`kubectl explain pod.spec`).",
    ContainerFields: "The fields of a Kubernetes Container (`kubectl explain pod.spec.containers`).",
}

HEAD = f"""# Fields

<!-- Written by `{COMMAND}` from the models of the API. Do not edit. -->

Every field of an InferenceService, a ClusterServingRuntime (a ServingRuntime has the same) and a
ClusterStorageContainer. `kubectl explain isvc.spec` shows the same texts. [Compatibility](compatibility.md) has what
becomes of each field, and [configuration](configuration.md) the settings of the operator.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is stale")
    made = page()
    if not parser.parse_args(arguments).check:
        PAGE.write_text(made)
        return 0
    if PAGE.read_text() != made:
        sys.stderr.write(f"docs/fields.md is stale; run: {COMMAND}\n")
        return 1
    return 0


def page() -> str:
    """Return the page: a section for each model, the ones that refer to others first."""
    models: dict[type[ApiModel], None] = {}
    for root in ROOTS:
        _collect(root, models)
    return "\n".join([HEAD, *(line for model in models for line in _section(model))])


def _collect(model: type[ApiModel], models: dict[type[ApiModel], None]) -> None:
    if model in models:
        return
    models[model] = None
    for field in model.model_fields.values():
        for part in _models_in(field.annotation):
            _collect(part, models)


def _models_in(annotation: Any) -> Iterator[type[ApiModel]]:
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        if annotation is not ObjectMeta:
            yield annotation
        return
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _section(model: type[ApiModel]) -> Iterator[str]:
    yield f"## {model.__name__}\n\n{_summary(model)}\n"
    core = {name for base in CORE if issubclass(model, base) for name in field_names(base)}
    schemas = structural_schema(model)["properties"]
    yield "| field | type | |\n|---|---|---|"
    for attribute, field in model.model_fields.items():
        name = field.alias or attribute
        if name not in core:
            yield f"| `{name}` | {_type(field.annotation)} | {_cell(_described(schemas[name], field))} |"
    yield from (f"| … | | {text} |" for base, text in CORE.items() if issubclass(model, base))
    if rules := rules_of(model):
        yield "\nThe API server refuses it when:\n"
        yield from (f"- {f'`{rule.field}`: ' if rule.field else ''}{_cell(_message(rule))}" for rule in rules)
    yield ""


def _message(rule: Rule) -> str:
    return f"so many {rule.message}" if rule.counted else rule.message


def _summary(model: type[ApiModel]) -> str:
    return " ".join((model.__doc__ or "").split())


def _described(schema: Mapping[str, Any], field: FieldInfo) -> str:
    limits = [f"{text} `{schema[key]}`" for key, text in _LIMITS.items() if key in schema]
    if "enum" in schema:
        limits.append(f"one of {', '.join(f'`{value}`' for value in schema['enum'] if value)}")
    if field.is_required():
        limits.append("required")
    elif field.default not in (None, "", [], {}) and isinstance(field.default, str | int):
        limits.append(f"default `{field.default}`")
    text = schema.get("description", "").rstrip(".")
    return f"{text}{'; ' if text and limits else ''}{', '.join(limits)}"


_LIMITS = {
    "minimum": "at least",
    "maximum": "at most",
    "maxLength": "characters at most:",
    "maxItems": "items at most:",
    "pattern": "pattern",
}


def _type(annotation: Any) -> str:
    """Return the type as people read it; a model's is a link to its section."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(arguments[0])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_type(item) for item in arguments if item is not type(None)))
    if origin is Literal:
        return "string"
    if origin is list:
        return f"list of {_type(arguments[0])}"
    if origin is dict:
        return f"map of {_type(arguments[1])}" if arguments[1] is not Any else "object"
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        if annotation is ObjectMeta:
            return "ObjectMeta"
        return f"[{annotation.__name__}](#{annotation.__name__.lower()})"
    return {str: "string", int: "integer", float: "number", bool: "boolean"}[annotation]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


if __name__ == "__main__":
    raise SystemExit(main())
