"""Everything that one reconcile reads, taken from the watch cache at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from isvc_operator.api import inference_service, serving_runtime, storage_container
from isvc_operator.api.base import ApiModel
from isvc_operator.api.errors import InvalidObject
from isvc_operator.api.inference_service import InferenceService, parse_inference_service
from isvc_operator.api.kinds import DISRUPTION_BUDGET, Role, is_a
from isvc_operator.api.rule_evaluation import check_rules
from isvc_operator.api.serving_runtime import parse_serving_runtime
from isvc_operator.api.storage_container import ClusterStorageContainer, parse_storage_container
from isvc_operator.config import OperatorConfig
from isvc_operator.errors import InvalidSpec, Problem
from isvc_operator.kube.cache import Cache, ObjectKey
from isvc_operator.manifests import Manifest, ServiceKey, controller_of, name_of
from isvc_operator.resolve.runtime import Runtimes

T = TypeVar("T", bound=ApiModel)


@dataclass(frozen=True)
class Gathered:
    """The service's own body, its children, and the runtimes and storage containers that it may use.

    ``taken_hosts`` maps those of its hosts that belong to another service to its ``namespace/name``. ``budgets`` are
    the PodDisruptionBudgets of others in its namespace.
    """

    body: Manifest
    runtimes: Runtimes
    storage_containers: tuple[ClusterStorageContainer, ...]
    children: tuple[Manifest, ...]
    taken_hosts: Mapping[str, str] = field(default_factory=dict)
    budgets: tuple[Manifest, ...] = ()

    @property
    def headless(self) -> bool | None:
        """Whether the service's Services are headless, which cannot change; None if it has none yet."""
        uid = self.body["metadata"]["uid"]
        own = [item for item in self.children if item["kind"] == "Service" and controller_of(item).get("uid") == uid]
        return all(item["spec"].get("clusterIP") == "None" for item in own) if own else None

    def config(self, config: OperatorConfig) -> OperatorConfig:
        """Return the configuration for this service: ``serviceClusterIPNone`` is only for new Services."""
        return config if self.headless is None else config.with_headless_services(self.headless)


def gather(cache: Cache, key: ServiceKey) -> Gathered | None:
    """Return what is known about the service; None if it does not exist or is being deleted."""
    body = cache.get(ObjectKey(inference_service.KIND, key.namespace, key.name))
    if body is None or body["metadata"].get("deletionTimestamp"):
        return None
    return Gathered(
        body=body,
        runtimes=_runtimes(cache, key.namespace),
        storage_containers=_parsed(cache, cache.of_kind(storage_container.KIND), parse_storage_container)[0],
        children=tuple(item for item in cache.of_service(key) if is_a(item["kind"], Role.CHILD)),
        taken_hosts=cache.hosts.taken_from(*key),
        budgets=tuple(_budgets_of_others(cache, body)),
    )


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
    bare = {**body, "spec": {"predictor": {}}}
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
