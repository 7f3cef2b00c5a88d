"""Finds what has no effect in a service, a runtime, a storage container or the ConfigMap."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from itertools import islice
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel

from isvc_operator.api.base import ApiModel, ObjectMeta, field_names
from isvc_operator.api.components import ExplainerSpec, PredictorSpec, TransformerSpec
from isvc_operator.api.core_fields import ContainerFields
from isvc_operator.api.inference_service import InferenceService, InferenceServiceSpec
from isvc_operator.api.names import ANNOTATION_SETTINGS, EXPLAINER, LABEL_VISIBILITY, PREDICTOR, TRANSFORMER
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.api.storage_container import ClusterStorageContainer
from isvc_operator.config import CredentialsConfig, IngressConfig, OperatorConfig
from isvc_operator.ignored.table import (
    ANNOTATIONS,
    DETAILS,
    KNATIVE,
    LABELS_OF_METADATA,
    OF_METADATA,
    OF_RUNTIMES,
    OUR_WORDS,
    READ_ANNOTATIONS,
    RUNTIME,
    SERVICE,
    SETTINGS,
    NoEffect,
)
from isvc_operator.limits import LINE_BYTES, NAMED
from isvc_operator.text import one_line, shortened

_LONGEST = 63  # characters; no known name is longer
_CONTAINERS = frozenset({"container", "containers", "initContainers"})
_DOMAINS = frozenset(name.partition("/")[0] for name in (*READ_ANNOTATIONS, *ANNOTATIONS))
_USUAL = ("spec", "spec.predictor", "spec.predictor.model")
_KNATIVES_VISIBILITY, _CLUSTER_LOCAL = "networking.knative.dev/visibility", "cluster-local"
_EXPOSED = "exposed"  # OpenShift's word for a service that is published
_EXAMPLE = "_example"  # the key in which KServe documents the others
_NO_CERTIFICATE = "with enableGatewayApi, the listeners of the Gateway have the certificates"
_NO_REWRITING = "an Ingress does not rewrite paths by itself: write enableGatewayApi or pathIngress as well"


class _Field(NamedTuple):
    path: str
    name: str
    value: Any
    known: Collection[str]  # the names that are known in its place


def unknown_fields(resource: InferenceService | ServingRuntime | ClusterStorageContainer) -> list[str]:
    """Return the first unknown fields of the spec, such as `spec.predictr (did you mean predictor?)`.

    They are usually misspelled. As with KServe, they are accepted and kept.
    """
    unknown = [field for field in _in_model(resource.spec, "spec") if field.name not in field.known]
    body = resource.as_dict() if unknown and isinstance(resource, InferenceService) else {}
    return _first(f"{field.path}{meant(field.path, field.known, body)}" for field in unknown)


def unused_fields(resource: InferenceService | ServingRuntime) -> Iterator[str]:
    """Yield the fields that are known and not used, each with what happens instead."""
    rows = SERVICE if isinstance(resource, InferenceService) else RUNTIME
    given = {field.path: field.value for field in _in_model(resource.spec, "spec") if field.path in rows}
    for path, row in rows.items():
        if path in given and not row.unless(given[path]):
            yield _said(path, row, str(given[path]) if row.shown else None)


def unused_annotations(service: InferenceService, config: CredentialsConfig) -> Iterator[str]:
    """Yield annotations of KServe, of Knative and of this operator that are not used, or not known."""
    known = {*ANNOTATIONS, *READ_ANNOTATIONS, config.storage_secret_name_annotation}
    components = (item.annotations or {} for _, item in _components(service))
    given = [(name, own[name]) for own in (service.metadata.annotations, *components) for name in own]
    for name, value in dict.fromkeys(given):
        row = ANNOTATIONS.get(name) or ANNOTATIONS.get(_meant(name, known))  # a right name may have no effect, either
        if row and not row.unless(value):
            yield _said(f"annotation {name}", row, value)
        elif name.partition("/")[0] in KNATIVE:
            yield f"annotation {name}: {value} (only Knative reads it)"
        elif why := unknown_annotation(name, known):
            yield f"annotation {name}{why}"


def unknown_annotation(name: str, known: Collection[str]) -> str:
    """Return what an annotation of our domains that is not known may be meant for, or of a domain that looks like ours.

    Empty for one that is known, and for those of others.
    """
    domain, _, own = name.partition("/")
    if name in known:
        return ""
    if domain in _DOMAINS:
        meant = _meant(name, known).removeprefix(f"{domain}/")
        return f" (did you mean {meant}?)" if meant else " (it is not known)"
    if not OUR_WORDS.intersection(domain.split(".")):
        return ""
    return next((f" (did you mean {one}?)" for one in known if one.partition("/")[2] == own), "")


def _meant(name: str, known: Collection[str]) -> str:
    """Return the known annotation of the same domain that is the most similar one; empty if none is, or it is known."""
    domain, _, own = name.partition("/")
    beside = {one.removeprefix(f"{domain}/") for one in known if one.startswith(f"{domain}/")}
    nearest = "" if name in known else _nearest(own, beside)
    return f"{domain}/{nearest}" if nearest else ""


def _components(service: InferenceService) -> Iterator[tuple[str, PredictorSpec | TransformerSpec | ExplainerSpec]]:
    spec = service.spec
    for kind, item in ((PREDICTOR, spec.predictor), (TRANSFORMER, spec.transformer), (EXPLAINER, spec.explainer)):
        if item:
            yield kind, item


def misplaced_parts(service: InferenceService) -> Iterator[str]:
    """Yield labels and annotations where they are not read; for a component, those that its metadata lacks."""
    metadata, there = service.metadata, "write it in the metadata of the service"
    for kind, component in _components(service):
        for name, value in (component.annotations or {}).items():
            if name in OF_METADATA and metadata.annotations.get(name) != value:
                yield f"annotation {name} of spec.{kind} ({there})"
        for name, value in (component.labels or {}).items():
            if name in LABELS_OF_METADATA and metadata.labels.get(name) != value:
                yield f"label {name} of spec.{kind} ({there})"
    if ANNOTATION_SETTINGS in metadata.annotations:
        yield f"annotation {ANNOTATION_SETTINGS} (write it under annotations of the component whose server reads them)"
    for name in sorted(metadata.annotations.keys() & LABELS_OF_METADATA):
        yield f"annotation {name} (write it as a label)"
    for name in metadata.labels:
        if name in ANNOTATIONS or name in READ_ANNOTATIONS:
            yield f"label {name} (write it as an annotation)"
        elif name != LABEL_VISIBILITY and _looks_like_visibility(name):
            yield f"label {name} (did you mean {LABEL_VISIBILITY}?)"


def _looks_like_visibility(label: str) -> bool:
    domain, _, own = label.partition("/")
    right_domain, _, right = LABEL_VISIBILITY.partition("/")
    return domain == right_domain or (own == right and bool(OUR_WORDS.intersection(domain.split("."))))


def unused_parts(service: InferenceService, config: CredentialsConfig) -> Iterator[str]:
    """Yield the fields, annotations and labels that have no effect in any service."""
    yield from unused_fields(service)
    yield from map(one_line, islice(unused_annotations(service, config), NAMED))
    yield from map(one_line, islice(misplaced_parts(service), NAMED))
    labels = service.metadata.labels
    if labels.get(_KNATIVES_VISIBILITY) == _CLUSTER_LOCAL and LABEL_VISIBILITY not in labels:
        yield f"label {_KNATIVES_VISIBILITY}: {_CLUSTER_LOCAL} (only Knative reads it; write {LABEL_VISIBILITY})"
    if labels.get(LABEL_VISIBILITY, _CLUSTER_LOCAL) not in (_CLUSTER_LOCAL, _EXPOSED):
        yield f"label {LABEL_VISIBILITY}: {labels[LABEL_VISIBILITY]} (only {_CLUSTER_LOCAL} has an effect)"


def unknown_annotations(runtime: ServingRuntime) -> list[str]:
    """Return the first annotations of a runtime that look like ours, and that nothing reads."""
    given = ((name, unknown_annotation(name, OF_RUNTIMES)) for name in runtime.metadata.annotations)
    return _first(f"annotation {one_line(name)}{why}" for name, why in given if why)


def ignored_settings(data: Mapping[str, str]) -> list[str]:
    """Return the first settings of ``inferenceservice-config`` that have no effect, each with what happens instead."""
    return _first(_in_config_map(data))


def _in_config_map(data: Mapping[str, str]) -> Iterator[str]:
    sections = fields_of(OperatorConfig)
    keys = {*sections, *(path.partition(".")[0] for path in SETTINGS)}
    for key in sorted(data.keys() - {_EXAMPLE}):
        if row := SETTINGS.get(key):
            yield _said(key, row)
        elif key not in keys:
            yield f"{one_line(key)}{suggestion(key, keys)}"
        else:
            yield from _in_key(key, data[key], sections.get(key))


def _in_key(key: str, text: str, section: type[BaseModel] | None) -> Iterator[str]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        yield f"{key} (it is not a JSON object)"
        return
    for field in _walk(document, fields_of(section) if section else {}, key):
        parent = field.path.removesuffix(field.name)
        known = {
            *field.known,
            *(path.removeprefix(parent) for path in (*SETTINGS, *DETAILS) if path.startswith(parent)),
        }
        if row := SETTINGS.get(field.path):
            if not row.unless(field.value):
                yield _said(field.path, row, shortened(one_line(json.dumps(field.value)), LINE_BYTES))
        elif field.name not in known:
            yield f"{field.path}{suggestion(field.name, known)}"
    if section is IngressConfig:
        yield from _of_other_routes(document)


def _of_other_routes(ingress: Mapping[str, Any]) -> Iterator[str]:
    """Yield the settings of key ``ingress`` that have no effect on the kind of routes that is created."""
    if ingress.get("enableGatewayApi") is True:
        if ingress.get("tlsSecretName"):
            yield f"ingress.tlsSecretName ({_NO_CERTIFICATE})"
        if ingress.get("pathIngress"):
            yield "ingress.pathIngress (an HTTPRoute rewrites the path by itself)"
    elif ingress.get("pathTemplate") and not ingress.get("pathIngress"):
        yield f"ingress.pathTemplate ({_NO_REWRITING})"


def _in_model(model: ApiModel, path: str) -> Iterator[_Field]:
    """Yield each given field of a part of a resource and of what is in it; at every level the unknown ones first."""
    names = {name: getattr(model, attribute) for name, attribute in field_names(type(model)).items()}
    given = {name: value for name, value in names.items() if value is not None}
    return _walk({**(model.model_extra or {}), **given}, fields_of(type(model)), path)


def _walk(given: Mapping[str, Any], known: Mapping[str, type[BaseModel] | None], path: str) -> Iterator[_Field]:
    for name, value in given.items():
        place = f"{path}.{name if name in known else one_line(name)}"
        yield _Field(place, name, value, known)
        if name in known:
            yield from _inside(value, known[name], place)


def _inside(value: Any, model: type[BaseModel] | None, path: str) -> Iterator[_Field]:
    if isinstance(value, ApiModel):
        yield from _in_model(value, path)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _inside(item, model, f"{path}[{index}]")
    elif isinstance(value, Mapping) and model:
        yield from _walk(value, fields_of(model), path)


@cache
def fields_of(model: type[BaseModel]) -> Mapping[str, type[BaseModel] | None]:
    """Return the fields of a model by their names in YAML, each with its own model if it is an object."""
    fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    return {name: ContainerFields if name in _CONTAINERS else _model_in(kind) for name, kind in fields.items()}


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that a field holds; ``CacheConfig | None`` holds one, too."""
    candidates = (annotation, *get_args(annotation))
    return next((one for one in candidates if isinstance(one, type) and issubclass(one, BaseModel)), None)


def suggestion(name: str, known: Collection[str], *, least: float = 0.6) -> str:
    """Return `` (did you mean x?)`` for a name that is nearly a known one, else an empty text; 1 is equal."""
    nearest = _nearest(name, known, least=least)
    return f" (did you mean {nearest}?)" if nearest else ""


def _nearest(name: str, known: Collection[str], *, least: float = 0.6) -> str:
    if len(name) > _LONGEST:
        return ""
    spelling = {candidate.lower(): candidate for candidate in known if candidate != name}
    near = get_close_matches(name.lower(), spelling, n=1, cutoff=least)
    return spelling[near[0]] if near else ""


def meant(path: str, known: Collection[str], body: Mapping[str, Any]) -> str:
    """Return what an unknown field of a service may be meant for: where it belongs, or a known name that is near."""
    place = belongs_in(path, body)
    return f" (it belongs in {place})" if place else suggestion(path.rpartition(".")[2], known)


def belongs_in(path: str, body: Mapping[str, Any]) -> str:
    """Return the path of the object of a service that an unknown field belongs in; empty if that is not clear.

    It is above or below the field's place, and the only one there that has such a field: of those that ``body`` has,
    or else of the usual ones.
    """
    parent, _, name = path.rpartition(".")
    beside = {
        place: _has(body, place)
        for place in _places().get(name, ())
        if place.startswith(f"{parent}.".removeprefix(".")) or parent.startswith(f"{place}.")
    }
    usual = () if name in field_names(ContainerFields) else [place for place in beside if place in _USUAL]
    places = [place for place in beside if beside[place]] or usual
    return places[0] if body and len(places) == 1 else ""


def _has(body: Any, path: str) -> bool:
    for name in path.split("."):
        body = body.get(name) if isinstance(body, Mapping) else None
    return isinstance(body, Mapping)


@cache
def _places() -> Mapping[str, Collection[str]]:
    """Return the paths of the objects of a service that have a field, by its name."""
    places: dict[str, list[str]] = {}
    waiting: list[tuple[str, type[BaseModel]]] = [("spec", InferenceServiceSpec)]
    for path, model in waiting:
        for name, kind in fields_of(model).items():
            if name not in field_names(ObjectMeta):
                places.setdefault(name, []).append(path)
            if kind and name not in (*_CONTAINERS, "canary", "storageUris"):  # in whose lists there may be several
                waiting.append((f"{path}.{name}", kind))
    return places


def _said(place: str, row: NoEffect, value: str | None = None) -> str:
    instead = f" ({row.instead})" if row.instead else ""
    return f"{place}{instead}" if value is None else f"{place}: {value}{instead}"


def _first(found: Iterator[str]) -> list[str]:
    named = list(islice(found, NAMED + 1))
    return named if len(named) <= NAMED else [*named[:NAMED], "and others"]
