"""What becomes of a service and of the objects it is made from; and objects without one of their fields."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from isvc.run.objects import as_stored
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.parsing import (
    InvalidObject,
    parse_inference_service,
    parse_serving_runtime,
    parse_storage_container,
)
from isvc_operator.api.schema import check_rules
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.config import parse_config
from isvc_operator.errors import OperatorError
from isvc_operator.ignored.walker import ignored_settings
from isvc_operator.render.children import render
from isvc_operator.resolve.component import StorageContext
from isvc_operator.resolve.ignored import all_ignored_parts
from isvc_operator.resolve.requested import storage_requests
from isvc_operator.resolve.runtime import Runtimes
from isvc_operator.resolve.service import resolve
from isvc_operator.resolve.storage.plan import ObjectReference

Manifest = dict[str, Any]
# The names and indices that lead to a value inside a document.
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Outcome:
    """The children and URLs, the settings that are named as ignored, or else why the service is refused.

    ``reason`` is that of the status, where the operator refuses it.

    ``inputs`` are the digests of what the pods are rendered from. They change with every edit, so they do not count
    where outcomes are compared.
    """

    children: Sequence[Manifest] = ()
    urls: tuple[str | None, ...] = ()
    ignored: Sequence[str] = ()
    refused: str | None = None
    reason: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict, compare=False)


def outcome_of(documents: Sequence[Manifest], shipped: Sequence[ServingRuntime] = ()) -> Outcome:
    """Return what becomes of the one InferenceService among the documents, with those runtimes installed as well."""

    def of_kind(*kinds: str) -> list[Manifest]:
        return [document for document in documents if document["kind"] in kinds]

    (body,) = of_kind("InferenceService")
    data = {key: text for item in of_kind("ConfigMap") for key, text in item["data"].items()}
    objects = [as_stored(item) for item in of_kind("ServiceAccount", "Secret")]
    try:
        service, config = parse_inference_service(body), parse_config(data)
        check_rules(InferenceService, body)
        runtimes = Runtimes(
            namespaced=tuple(map(parse_serving_runtime, of_kind("ServingRuntime"))),
            cluster=(*shipped, *map(parse_serving_runtime, of_kind("ClusterServingRuntime"))),
        )
        storage = StorageContext(
            requests=storage_requests(service),
            containers=tuple(map(parse_storage_container, of_kind("ClusterStorageContainer"))),
            objects={ObjectReference(item["kind"], item["metadata"]["name"]): item for item in objects},
        )
        resolved = resolve(service, runtimes, config, storage=storage)
        ignored = (*all_ignored_parts(service, resolved, config), *ignored_settings(data))
        urls = (resolved.hosts.url, resolved.hosts.address, *resolved.hosts.urls.values())
        return Outcome(render(resolved, config), urls, ignored, inputs=resolved.inputs.every)
    except OperatorError as error:
        return Outcome(refused=str(error), reason=error.reason)
    except InvalidObject as error:
        return Outcome(refused=str(error))


def paths_in(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the path of every value inside a document, those of objects and lists before those in them."""
    items: Any = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield (*path, name)
        yield from paths_in(item, (*path, name))


def without(document: Any, path: Path) -> Any:
    """Return the document without the value at the path; the rest is shared with the given one."""
    step, *inner = path
    copy = document.copy()
    if inner:
        copy[step] = without(document[step], tuple(inner))
    else:
        del copy[step]
    return copy


def renamed(document: Any, path: Path) -> Any:
    """Return the document with another name for the field at the path; the rest is shared with the given one."""
    step, *inner = path
    if not inner:
        return {f"{name}Renamed" if name == step else name: value for name, value in document.items()}
    copy = document.copy()
    copy[step] = renamed(document[step], tuple(inner))
    return copy


def dotted(path: Path) -> str:
    """Return the path as people write it: ``spec.predictor.containers[0].image``."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".")


def changes(before: Any, after: Any, path: Path = ()) -> Iterator[tuple[str, Any]]:
    """Yield the paths of the values that differ, with the new ones: None for one that is gone.

    Lists of objects are compared by their indices, and other lists only where they are of one length.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys([*before, *after]):
            yield from changes(before.get(name), after.get(name), (*path, name))
    elif isinstance(before, list) and isinstance(after, list) and _comparable(before, after):
        for index, pair in enumerate(zip_longest(before, after)):
            yield from changes(*pair, (*path, index))
    elif before != after:
        yield dotted(path), after


def _comparable(before: Sequence[Any], after: Sequence[Any]) -> bool:
    return len(before) == len(after) or all(isinstance(item, Mapping) for item in (*before, *after))


def a_config_map(sections: Mapping[str, Any]) -> Manifest:
    """Return ``inferenceservice-config`` with these sections, each of which is JSON in it."""
    data = {name: json.dumps(section) for name, section in sections.items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "inferenceservice-config"}, "data": data}
