"""What would be refused in files, in words for those who have mistyped something. Pure.

`isvc.run` finds it, and says what is wrong; this says what to write, by what is written, and names the place in a
service instead of that in a Deployment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import yaml

from isvc.run.check import CheckFinding
from isvc.run.documents import YamlText
from isvc.run.mistake import Fault, Mistake, unknown
from isvc.run.place import Place
from isvc_operator.api.parsing import excess
from isvc_operator.api.rules import NOTHING_TO_SERVE
from isvc_operator.ignored.walker import belongs_in, suggestion
from isvc_operator.ignored.written import fields_in_service, names_in
from isvc_operator.text import one_line

_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_NAME: Final = "metadata.name"
# Fields whose objects, or those in whose lists, have a name: it alone is enough, or others follow it.
_NAMED: Final = {
    **dict.fromkeys(("modelFormat", "supportedModelFormats", "imagePullSecrets", "authenticationRef"), ""),
    **dict.fromkeys(("configMap", "configMapRef", "secretRef"), ""),
    **dict.fromkeys(("containers", "initContainers", "env", "volumes", "volumeMounts"), ", …"),
    **dict.fromkeys(("configMapKeyRef", "secretKeyRef"), ", …"),
}
_NEAR: Final = 0.8  # the ratio of difflib; a field that is known may be as near as 0.6


def in_plain_words(findings: Sequence[CheckFinding], texts: Sequence[YamlText]) -> tuple[CheckFinding, ...]:
    """Return the findings, each once, with its file if there are several. ``texts`` are what was checked."""
    plain: dict[CheckFinding, None] = {}
    bodies = _bodies(texts) if any(finding.mistake for finding in findings) else ()
    for finding in findings:
        body = next((body for file, body in bodies if _is_at(finding.place, file, body)), {})
        plain |= dict.fromkeys(_plain(finding, body))
    once = [finding for finding in plain if not any(_explains(other, finding) for other in plain)]
    return tuple(_with_file(finding) for finding in once) if len(texts) > 1 else tuple(once)


def _explains(other: CheckFinding, finding: CheckFinding) -> bool:
    """Whether a finding is of the same mistake as another one, which says more.

    A field that is misspelt, or indented too little, is one that is missing, and a service's name has more rules than
    that of any object.
    """
    field, other_field = finding.place.field, other.place.field
    one, more = finding.mistake, other.mistake
    if not one or not more or replace(other.place, field=field) != finding.place:
        return False
    if one.what == NOTHING_TO_SERVE:
        return other_field.startswith(f"{field}.") and more.fault is Fault.UNKNOWN and bool(more.hint)
    if more.fault is Fault.EMPTY and one.wanted.startswith(other_field):
        return True
    return field == other_field == _NAME and more.fault is Fault.RULE and one.fault is not Fault.RULE


def _with_file(finding: CheckFinding) -> CheckFinding:
    file = finding.place.file
    is_named = not file or finding.text.startswith(f"{file}:")
    return finding if is_named else replace(finding, text=f"{file}: {finding.text}")


def _plain(finding: CheckFinding, body: Mapping[str, Any]) -> Iterator[CheckFinding]:
    place = finding.place
    if finding.mistake is None:
        yield finding
        return
    for mistake in _in_file(finding.mistake, body):
        found = place if mistake.child else replace(place, field=mistake.path)
        yield replace(finding, text=one_line(str(mistake)), place=found, mistake=mistake)


def _in_file(mistake: Mistake, body: Mapping[str, Any]) -> Iterator[Mistake]:
    """Yield the mistake for each place in the object that it may come from, with what to write there."""
    places = _in_service(mistake, body) if mistake.child else [mistake.path]
    for path in places:
        yield _explained(replace(mistake, path=path, child=""), body)
    if not places:
        yield _explained(mistake, {})


def _explained(mistake: Mistake, body: Mapping[str, Any]) -> Mistake:
    """Return the mistake with what to write, by what is written."""
    path = mistake.path
    if mistake.fault is Fault.TYPE:
        return replace(mistake, hint=_instead(mistake.wanted, _value(body, path), path))
    parent, _, name = path.rpartition(".")
    given = _value(body, parent)
    if mistake.fault is not Fault.REQUIRED or not isinstance(given, Mapping):
        return mistake
    if name in given:
        outside = [field for field in given if belongs_in(f"{parent}.{field}", body).startswith(path)]
        what = f"it is empty; indent {' and '.join(outside) or 'its fields'} under it"
        return replace(mistake, what=what, fault=Fault.EMPTY)
    misspelt = next((field for field in given if suggestion(field, [name], least=_NEAR)), None)
    if misspelt is None:
        return mistake
    found = unknown(f"{parent}.{misspelt}".removeprefix("."), suggestion(misspelt, [name]))
    return replace(found, about=mistake.about)


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


def _in_service(mistake: Mistake, body: Mapping[str, Any]) -> list[str]:
    """Return the fields of a service from which a field of a pod was made; empty if that is not clear.

    What is unknown is wrong wherever it is written.
    """
    path, end = mistake.path, ""
    if mistake.fault is Fault.REQUIRED:  # it is written nowhere, but the object that lacks it is
        path, _, name = path.rpartition(".")
        end = f".{name}"
    found = [
        f"{place}{end}"
        for place, value in fields_in_service(path, body)
        if (isinstance(value, Mapping) if end else place[-1] == path[-1])
    ]
    return found if len(found) == 1 or mistake.fault is Fault.UNKNOWN else []
