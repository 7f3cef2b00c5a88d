"""What becomes of each field of a service, a runtime and the ConfigMap: supported, or reported as not supported."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from isvc_operator.api.components import FRAMEWORKS
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.ignored.table import DETAILS
from isvc_operator.ignored.walker import ignored_settings
from tests.support.outcomes import Manifest, Outcome, Path, dotted, outcome_of, paths_in, renamed, without

_OLDER_KEYS = re.compile(rf"^spec\.predictor\.({'|'.join(FRAMEWORKS)})\.")
_NAMES = (("metadata", "labels"), ("metadata", "annotations"))


class Effect(StrEnum):
    """What becomes of a field."""

    SUPPORTED = "supported"
    OTHERWISE = "supported differently"
    NAMED = "reported as not supported"
    DETAIL = "without effect: of Istio, or a detail of what is off"
    SILENT = "silent"


@dataclass(frozen=True)
class Field:
    """A field such as ``spec.predictor.containers[].image``, what becomes of it, and what its owner reads about it."""

    path: str
    effect: Effect
    said: str = ""


def fields_of(
    document: Manifest, others: Sequence[Manifest], runtimes: Sequence[ServingRuntime] = ()
) -> Iterator[Field]:
    """Yield what becomes of each field of a service, or of its runtime, if the service is served."""

    def becomes(changed: Manifest) -> Outcome:
        return outcome_of([changed, *others], runtimes)

    before = becomes(document)
    for path in paths_in(document):
        if path[:-1] in _NAMES or (path[0] == "spec" and not _has_parts(document, path)):
            effect, said = _effect(document, path, becomes, before)
            yield Field(_described(path), effect, said)


def fields_of_config_map(data: Mapping[str, str]) -> Iterator[Field]:
    """Yield what becomes of each field of ``inferenceservice-config``."""
    named = ignored_settings(data)
    for key, text in data.items():
        section = json.loads(text)
        for path in paths_in(section):
            field = dotted((key, *path))
            said = next((item for item in named if _is_part(field, item)), "")
            effect = Effect.NAMED if said else Effect.DETAIL if field in DETAILS else Effect.SUPPORTED
            if not _has_parts(section, path):
                yield Field(field, effect, said)


def _effect(
    document: Manifest, path: Path, becomes: Callable[[Manifest], Outcome], before: Outcome
) -> tuple[Effect, str]:
    after = becomes(without(document, path))
    changed = after.refused is None and (before.children, before.urls) != (after.children, after.urls)
    gone = [item for item in before.ignored if item not in after.ignored] if after.refused is None else []
    said = "; ".join(gone) or next((item for item in before.ignored if _is_part(dotted(path), item)), "")
    if said:
        # An annotation is copied to the children all the same.
        return (Effect.OTHERWISE if changed and path[0] == "spec" else Effect.NAMED), said
    is_known = isinstance(path[-1], str) and becomes(renamed(document, path)) != before
    return (Effect.SUPPORTED if changed or after.refused or is_known else Effect.SILENT), ""


def _has_parts(document: Any, path: Path) -> bool:
    for step in path:
        document = document[step]
    return bool(document) and isinstance(document, dict | list)


def _is_part(field: str, ignored: str) -> bool:
    """Whether something that is named as ignored is the field or holds it."""
    name = re.split(r"[ :]", ignored, maxsplit=1)[0]
    return field == name or field.startswith((f"{name}.", f"{name}["))


def _described(path: Path) -> str:
    """Return the path without indices; the older keys of all frameworks have the same fields."""
    return _OLDER_KEYS.sub("spec.predictor.(framework).", re.sub(r"\[\d+\]", "[]", dotted(path)))
