"""Everything that a decision about a service depends on: what is watched, and the few objects that are not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from isvc_operator.api import inference_service, serving_runtime, storage_container
from isvc_operator.api.base import ApiModel
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.kinds import DISRUPTION_BUDGET, SCALED_OBJECT, Role, is_a
from isvc_operator.api.parsing import (
    OMITTED,
    InvalidObject,
    parse_inference_service,
    parse_serving_runtime,
    parse_storage_container,
)
from isvc_operator.api.schema import check_rules
from isvc_operator.config import OperatorConfig
from isvc_operator.decide import Inputs
from isvc_operator.errors import InvalidSpec, Problem
from isvc_operator.kube.informer.cache import Cache, ObjectKey
from isvc_operator.kube.objects import ObjectReader
from isvc_operator.manifests import Manifest, ServiceKey, controller_of, name_of
from isvc_operator.resolve.front import tls_secret
from isvc_operator.resolve.requested import asks_for_keda, is_stopped, references, storage_requests
from isvc_operator.resolve.runtime import Runtimes

T = TypeVar("T", bound=ApiModel)


def gather(cache: Cache, key: ServiceKey, config: OperatorConfig) -> Inputs | None:
    """Return what the cache knows of the service; None if it does not exist or is being deleted.

    What is not watched has to be added: ``with_objects``.
    """
    body = cache.get(ObjectKey(inference_service.KIND, key.namespace, key.name))
    if body is None or body["metadata"].get("deletionTimestamp"):
        return None
    service, problem = cache.read(body, read_service)
    children = tuple(item for item in cache.of_service(key) if is_a(item["kind"], Role.CHILD))
    if outlines := [child for child in children if OMITTED in child]:
        problem = problem or _omitted(body, outlines)
    return Inputs(
        body=body,
        service=service,
        config=config,
        problem=problem,
        runtimes=_runtimes(cache, key.namespace),
        storage_containers=_parsed(cache, cache.of_kind(storage_container.KIND), parse_storage_container)[0],
        children=children,
        taken_hosts=cache.hosts.taken_from(*key),
        budgets=tuple(_budgets_of_others(cache, body)),
    )


async def with_objects(inputs: Inputs, objects: ObjectReader) -> Inputs:
    """Add the objects that the service refers to, and whether the cluster has KEDA; raises KubeError.

    A service that needs nothing is returned as it is.
    """
    service = inputs.service
    if inputs.problem or is_stopped(service):
        return inputs
    try:
        requested, secret = storage_requests(service), tls_secret(service, inputs.config)
        of_tls, credentials = frozenset({secret} if secret else ()), inputs.config.credentials
        namespace = service.metadata.namespace or ""
        found = await objects.read_all(namespace, lambda known: of_tls | references(requested, credentials, known))
    except InvalidSpec as error:
        return replace(inputs, problem=Problem.of(error))
    keda = not asks_for_keda(service) or await objects.has_kind(SCALED_OBJECT)
    return replace(inputs, objects=found, keda=keda)


def _omitted(service: Manifest, outlines: Iterable[Manifest]) -> Problem | None:
    """Return that a child of the service is too large to be compared with what it should be."""
    for child in outlines:
        if controller_of(child).get("uid") == service["metadata"]["uid"]:
            return Problem.of(InvalidSpec(f"{child['kind']} {name_of(child)}: {child[OMITTED]}"))
    return None


def _budgets_of_others(cache: Cache, service: Manifest) -> Iterator[Manifest]:
    metadata = service["metadata"]
    labelled = cache.of_service(ServiceKey(metadata["namespace"], metadata["name"]))
    for item in (*cache.unlabelled(DISRUPTION_BUDGET, metadata["namespace"]), *labelled):
        if item["kind"] == DISRUPTION_BUDGET and controller_of(item).get("uid") != metadata["uid"]:
            yield item


def read_service(body: Manifest) -> tuple[InferenceService, Problem | None]:
    """Parse the service, and check it by the rules of its CRD: it may be older than they are.

    One that is not valid, stored under another CRD, is parsed without its spec to report that.
    """
    try:
        service = parse_inference_service(body)
    except InvalidObject as error:
        return _without_spec(body), Problem.of(InvalidSpec(str(error)))
    try:
        check_rules(InferenceService, body)
    except InvalidObject as error:
        return service, Problem.of(InvalidSpec(str(error)))
    return service, None


def _without_spec(body: Manifest) -> InferenceService:
    bare = {name: value for name, value in body.items() if name != OMITTED} | {"spec": {"predictor": {}}}
    try:
        return parse_inference_service(bare)
    except InvalidObject:  # its status is not valid either
        return parse_inference_service({**bare, "status": {}})


def _runtimes(cache: Cache, namespace: str) -> Runtimes:
    own = (item for item in cache.of_kind(serving_runtime.KIND) if item["metadata"]["namespace"] == namespace)
    namespaced, invalid_here = _parsed(cache, own, parse_serving_runtime)
    cluster, invalid = _parsed(cache, cache.of_kind(serving_runtime.CLUSTER_KIND), parse_serving_runtime)
    return Runtimes(namespaced, cluster, unreadable={**invalid, **invalid_here})


def _parsed(
    cache: Cache, bodies: Iterable[Manifest], parse: Callable[[Manifest], T]
) -> tuple[tuple[T, ...], dict[str, str]]:
    """Return the valid ones, and what is wrong with the others, which must not stop services that do not use them."""

    def attempt(body: Manifest) -> T | InvalidObject:
        try:
            parsed = parse(body)
            check_rules(type(parsed), body)
        except InvalidObject as error:
            return error
        return parsed

    valid, invalid = [], {}
    for body in bodies:
        outcome = cache.read(body, attempt)
        if isinstance(outcome, InvalidObject):
            invalid[name_of(body)] = str(outcome)
        else:
            valid.append(outcome)
    return tuple(valid), invalid
