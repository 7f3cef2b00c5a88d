"""What would be refused in files, in words for those who have mistyped something. Pure.

`isvc.run` finds it, and says it as the API server does: with the name of the field twice, with the type of what is
written but not with what to write, and with the place in a Deployment instead of that in the service.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import yaml

from isvc.run.check import CheckFinding, Severity
from isvc.run.documents import YamlText
from isvc.run.place import Place
from isvc_operator.api.core_shapes import QUANTITY_SCHEMA
from isvc_operator.api.parsing import excess
from isvc_operator.ignored.walker import meant, suggestion
from isvc_operator.ignored.written import fields_in_service, names_in
from isvc_operator.text import one_line

_SKIPPED: Final = "some validation rules were not checked"
_MORE: Final = re.compile(rf", <nil>: Invalid value: null: {_SKIPPED}[^\]]*")
_REPEATED: Final = re.compile(r"(?<=: )\S+ in body (?=must|should)")
_CHILD: Final = re.compile(r"(\w+) \S+: (?=spec)")
_FIELD: Final = re.compile(r"((?:metadata|spec|data|stringData)\b[^\s:]*): (.*)")
_UNKNOWN: Final = re.compile(r'(?:(\S+): )?unknown field (".*")')
_UNKNOWN_IN_SERVICE: Final = re.compile(r'unknown field ([^\s"]+)(.*)')
_ENUM: Final = re.compile(r"Unsupported value: (\".*\"): supported values: (.*)")
# Of the API server, and of pydantic.
_TYPE: Final = re.compile(r'Invalid value: "(\w+)": \S+ in body must be of type (\S+): "\w+"')
_SHAPE: Final = re.compile(r"Input should be (?:a valid|an) (\w+)")
_TYPES: Final = {"list": "array", "dictionary": "object"}
_REQUIRED: Final = ("Required value", "Field required")
_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_QUANTITY: Final = str(QUANTITY_SCHEMA["pattern"])
_WITH_CONTAINERS: Final = ("ServingRuntime", "ClusterServingRuntime", "ClusterStorageContainer")
_EMPTY: Final = ": it is empty; "
_BELONGS: Final = "(it belongs in "
_NOTHING: Final = "nothing to serve: "
_NAME, _RULE_OF_NAME = "metadata.name", "because Services are named after it"
# Fields whose objects, or those in whose lists, have a name: it alone is enough, or others follow it.
_NAMED: Final = {
    **dict.fromkeys(("modelFormat", "supportedModelFormats", "imagePullSecrets", "authenticationRef"), ""),
    **dict.fromkeys(("configMap", "configMapRef", "secretRef"), ""),
    **dict.fromkeys(("containers", "initContainers", "env", "volumes", "volumeMounts"), ", …"),
    **dict.fromkeys(("configMapKeyRef", "secretKeyRef"), ", …"),
}
_NEAR: Final = 0.8  # the ratio of difflib; a field that is known may be as near as 0.6


@dataclass(frozen=True)
class _Mistake:
    """A field of an object and what is wrong with it; without a path, the words say where."""

    what: str
    path: str = ""


def in_plain_words(findings: Sequence[CheckFinding], texts: Sequence[YamlText]) -> tuple[CheckFinding, ...]:
    """Return the findings, each once, with its file if there are several. ``texts`` are what was checked."""
    plain: dict[CheckFinding, None] = {}
    bodies = _bodies(texts) if any(finding.severity is Severity.ERROR for finding in findings) else ()
    for finding in findings:
        body = next((body for file, body in bodies if _is_at(finding.place, file, body)), {})
        plain |= dict.fromkeys(_plain(finding, body))
    once = [finding for finding in plain if not any(_explains(other, finding) for other in plain)]
    return tuple(_with_file(finding) for finding in once) if len(texts) > 1 else tuple(once)


def without_repetition(message: str) -> str:
    """Return an API server's message with each field once, and without the line that there may be more lines."""
    return _REPEATED.sub("", _MORE.sub("", message))


def _explains(other: CheckFinding, finding: CheckFinding) -> bool:
    """Whether a finding is of the same mistake as another one, which says more.

    A field that is misspelt, or indented too little, is one that is missing, and a service's name has more rules than
    that of any object.
    """
    field, other_field = finding.place.field, other.place.field
    if other.severity is not finding.severity or replace(other.place, field=field) != finding.place:
        return False
    if _NOTHING in finding.text:
        return other_field.startswith(f"{field}.") and ("(did you mean" in other.text or _BELONGS in other.text)
    if _EMPTY in other.text and f"{_BELONGS}{other_field}" in finding.text:
        return True
    return field == other_field == _NAME and _RULE_OF_NAME in other.text and _RULE_OF_NAME not in finding.text


def _with_file(finding: CheckFinding) -> CheckFinding:
    file = finding.place.file
    is_named = not file or finding.text.startswith(f"{file}:")
    return finding if is_named else replace(finding, text=f"{file}: {finding.text}")


def _plain(finding: CheckFinding, body: Mapping[str, Any]) -> Iterator[CheckFinding]:
    place = finding.place
    before, head, line = finding.text.partition(f"{place.kind} {place.name}: ")
    if finding.severity is not Severity.ERROR or not head:
        yield finding
        return
    for mistake in _mistakes(line, place.kind, body):
        text = f"{mistake.path}: {mistake.what}" if mistake.path else mistake.what
        found = replace(place, field=mistake.path) if mistake.path else place
        yield replace(finding, text=one_line(f"{before}{head}{text}"), place=found)


def _mistakes(line: str, kind: str, body: Mapping[str, Any]) -> Iterator[_Mistake]:
    """Yield what a line about an object says, of the place in the object; nothing if it says nothing."""
    if line.startswith(_SKIPPED):
        return
    child = _CHILD.match(line)
    start, rest = (line[: child.end()], line[child.end() :]) if child else ("", line)
    for mistake in _parsed(rest, child[1] if child else kind):
        places = _in_service(mistake, body) if child else [mistake.path]
        for path in places:
            yield _explained(replace(mistake, path=path), body)
        if not places:
            in_child = _explained(mistake, {})
            yield _Mistake(f"{start}{in_child.path}: {in_child.what}")


def _parsed(line: str, kind: str) -> Iterator[_Mistake]:
    unknown = _UNKNOWN.fullmatch(line)
    if unknown and (names := _unquoted(unknown[2])):
        for name in names:
            yield _unknown(unknown[1] or "", name, _known_fields(kind, unknown[1] or ""))
    elif of_service := _UNKNOWN_IN_SERVICE.fullmatch(line):
        yield _Mistake(f"unknown field{of_service[2]}", of_service[1])
    elif field := _FIELD.fullmatch(line):
        yield _Mistake(field[2], field[1])
    else:
        yield _Mistake(line)


def _unquoted(texts: str) -> list[str]:
    """Return the texts of a list in JSON; nothing if it was shortened or escaped."""
    try:
        return [str(text) for text in json.loads(f"[{texts}]")]
    except ValueError:
        return []


def _unknown(parent: str, name: str, known: Collection[str]) -> _Mistake:
    return _Mistake(f"unknown field{suggestion(name, known)}", f"{parent}.{name}".removeprefix("."))


def _explained(mistake: _Mistake, body: Mapping[str, Any]) -> _Mistake:
    """Return the mistake with what to write, by what is written."""
    what, value = mistake.what, _value(body, mistake.path)
    if what in _REQUIRED:
        parent, _, name = mistake.path.rpartition(".")
        fields = _value(body, parent)
        given = fields if isinstance(fields, Mapping) else {}
        if name in given:
            outside = [field for field in given if _BELONGS + mistake.path in meant(f"{parent}.{field}", (), body)]
            return replace(mistake, what=f"it is empty; indent {' and '.join(outside) or 'its fields'} under it")
        misspelt = next((field for field in given if suggestion(field, [name], least=_NEAR)), None)
        return _unknown(parent, misspelt, [name]) if misspelt else replace(mistake, what=_REQUIRED[0])
    if wrong := _TYPE.fullmatch(what):
        what = f"must be of type {wrong[2]}, not {wrong[1]}{_instead(wrong[2], value, mistake.path)}"
    elif shape := _SHAPE.fullmatch(what):
        wanted = _TYPES.get(shape[1], shape[1])
        what = f"must be of type {wanted}{_instead(wanted, value, mistake.path)}"
    elif enum := _ENUM.fullmatch(what):
        near = "".join(suggestion(given, _unquoted(enum[2])) for given in _unquoted(enum[1]))
        what = f"Unsupported value: {enum[1]}{near}: supported values: {enum[2]}"
    elif _QUANTITY in what:
        what = f"{_REPEATED.split(what)[0]}not a quantity; write one such as 500m or 2Gi"
    else:
        what = _REPEATED.sub("", what.removeprefix('Invalid value: "object": '))
    return replace(mistake, what=what)


def _instead(wanted: str, given: Any, path: str) -> str:
    """Return what to write for a value that is of another type than is wanted; empty if nobody can know."""
    match wanted:
        case "string" if isinstance(given, str):
            return f"; write {json.dumps(given, ensure_ascii=False)}"
        case "integer" if isinstance(given, str):
            return f"; write {given}, without quotes" if re.fullmatch(r"-?\d+", given) else "; write a whole number"
        case "boolean" if isinstance(given, str):
            truth = given.lower()
            return f"; write {truth}, without quotes" if truth in ("true", "false") else "; write true or false"
        case "array" if isinstance(given, str):
            return f"; write [{json.dumps(given, ensure_ascii=False)}]"
        case "array" if isinstance(given, Mapping):
            return "; write a list, with a dash before each item"
        case "object" if isinstance(given, list):
            return "; write its fields without dashes"
        case "object" if isinstance(given, str):
            others = _NAMED.get("".join(names_in(path)[-1:]))
            if others is not None and re.fullmatch(r"[A-Za-z][\w.-]*", given):
                return f"; write it as {{name: {given}{others}}}"
            return "; write its fields, each as NAME: VALUE"
    return ""


# --- what is written ------------------------------------------------------------------------------------


def _bodies(texts: Sequence[YamlText]) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """Return the objects with their files. Scalars are texts, as they are written."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    for text in texts:
        try:
            documents = list(yaml.load_all(text.content, yaml.BaseLoader))
        except (yaml.YAMLError, RecursionError):
            continue
        for document in documents:
            items = document.get("items", [document]) if isinstance(document, Mapping) else []
            found += [(text.source, body) for body in items if isinstance(body, Mapping) and not excess(body)]
    return found


def _is_at(place: Place, file: str, body: Mapping[str, Any]) -> bool:
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping):
        return False
    namespace, name = metadata.get("namespace", place.namespace), metadata.get("name", "")
    here = Place(file=file, kind=body.get("kind", ""), namespace=namespace, name=name)
    return here == replace(place, field="")


def _value(body: Any, path: str) -> Any:
    """Return what is written at a path; None if there is nothing."""
    for name, index in _STEP.findall(path):
        try:
            body = body[int(index) if index else name]
        except (LookupError, TypeError):
            return None
    return body


def _in_service(mistake: _Mistake, body: Mapping[str, Any]) -> list[str]:
    """Return the fields of a service from which a field of a pod was made; empty if that is not clear.

    What is unknown is wrong wherever it is written.
    """
    path, end = mistake.path, ""
    if mistake.what in _REQUIRED:  # it is written nowhere, but the object that lacks it is
        path, _, name = path.rpartition(".")
        end = f".{name}"
    found = [
        f"{place}{end}"
        for place, value in fields_in_service(path, body)
        if (isinstance(value, Mapping) if end else place[-1] == path[-1])
    ]
    return found if len(found) == 1 or mistake.what.startswith("unknown field") else []


# --- Kubernetes' own types ------------------------------------------------------------------------------


def _known_fields(kind: str, path: str) -> Collection[str]:
    """Return the names of the fields at a path of an object of Kubernetes, or of a pod in a runtime."""
    if kind in _WITH_CONTAINERS:
        kind, path = "Pod", path.replace("spec.container.", "spec.containers.")
    schema = _schema(kind)
    definitions = schema.get("$defs", {})
    for name in names_in(path):
        schema = _object_in(schema.get("properties", {}).get(name, {}), definitions)
    return tuple(schema.get("properties", ()))


@cache
def _schema(kind: str) -> Mapping[str, Any]:
    from kubernetes.client import models  # here, because it takes half a second

    model = getattr(models, f"V1{kind}", None)
    schema: Mapping[str, Any] = model.model_json_schema() if model else {}
    return schema


def _object_in(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of the object that a field holds, perhaps in a list."""
    for choice in (schema, *schema.get("anyOf", ())):
        named = choice.get("items", choice).get("$ref", "").rpartition("/")[2]
        if named in definitions:
            found: Mapping[str, Any] = definitions[named]
            return found
    return {}
