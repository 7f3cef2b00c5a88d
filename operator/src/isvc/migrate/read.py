"""Reads a cluster, renders its services as the operator would, and returns the plan. Writes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from isvc.migrate.checks import ServiceChange, canary_refused, check_children, mode_refused
from isvc.migrate.errors import MigrationRefused
from isvc.migrate.names import KSERVE_MANAGER, KSERVE_NAMESPACE, OPERATOR_NAMESPACE
from isvc.migrate.objects import LiveObjects, path
from isvc.migrate.plan import MigrationPlan, PlanLine, ServiceMigration, blocking, check_cluster, ok
from isvc.source.inputs import ClusterInputs, read_inputs
from isvc_operator.api.kinds import Role, is_a, with_role
from isvc_operator.api.names import CONFIG_MAP, GROUP
from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.decide import Inputs, decide
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.objects import ObjectReader
from isvc_operator.kube.requests import path_of
from isvc_operator.manifests import Manifest, ServiceKey, controller_of, labels_of, name_of
from isvc_operator.resolve.ignored import all_ignored_parts

_CHILDREN = (
    *((kind.api_version, kind.plural) for kind in with_role(Role.CHILD) if kind.made_by_kserve),
    ("networking.istio.io/v1beta1", "virtualservices"),
)
# The kinds of KServe that people write objects of, and this operator does not read.
_STAYING = (
    "inferencegraphs",
    "trainedmodels",
    "llminferenceservices",
    "localmodelcaches",
    "localmodelnamespacecaches",
)
_CRDS = "apiextensions.k8s.io/v1"
_ENFORCED = "pod-security.kubernetes.io/enforce"


@dataclass(frozen=True)
class MigrationScope:
    """The namespaces to change over, all of them if empty, and the manifests that are installed with the operator."""

    namespaces: tuple[str, ...] = ()
    manifests: tuple[Manifest, ...] = ()


async def services_in(objects: LiveObjects, namespaces: Sequence[str]) -> list[Manifest]:
    """Return the services of these namespaces, all of them if none is named."""
    found = await _all(objects, f"{GROUP}/v1beta1", "inferenceservices", namespaces)
    return sorted(found, key=lambda item: (item["metadata"]["namespace"], name_of(item)))


async def children_of(objects: LiveObjects, services: Iterable[Manifest]) -> dict[str, list[Manifest]]:
    """Return the objects that KServe makes for services, by the uid of the service."""
    found: dict[str, list[Manifest]] = {item["metadata"]["uid"]: [] for item in services}
    for api, plural in _CHILDREN:
        for item in await objects.items(api, plural):
            if (uid := controller_of(item).get("uid")) in found:
                found[uid].append(item)
    return found


async def make_plan(objects: LiveObjects, scope: MigrationScope, clock: Callable[[], float]) -> MigrationPlan:
    """Return the plan for the scope; raises KubeError, and ConfigError for the operator's configuration."""
    data = await _configuration(objects, scope)
    known = await _inputs(objects.api, scope, parse_config(data), clock)
    services = await services_in(objects, scope.namespaces)
    children = await children_of(objects, services)
    restricted = {
        name_of(item)
        for item in await objects.items("v1", "namespaces")
        if labels_of(item).get(_ENFORCED) == "restricted"
    }
    plans = []
    for body in services:
        key = ServiceKey(body["metadata"]["namespace"], name_of(body))
        inputs, before = await known.of(key), children[body["metadata"]["uid"]]
        if inputs is not None:  # it is not being deleted
            lines = check_service(inputs, before, restricted=key.namespace in restricted)
            plans.append(ServiceMigration(key.namespace, key.name, lines))
    return MigrationPlan(await _of_cluster(objects, data), tuple(plans))


async def _inputs(
    api: KubeApi, scope: MigrationScope, config: OperatorConfig, clock: Callable[[], float]
) -> ClusterInputs:
    """Read what the operator will decide from; raises MigrationRefused if it may not all be read."""
    found = await read_inputs(api, scope.namespaces or ("",), config, ObjectReader(api, clock))
    if found.hidden:
        raise MigrationRefused(f"you may not read {', '.join(found.hidden)}, from which the operator decides")
    found.use(item for item in scope.manifests if is_a(item["kind"], Role.INPUT))
    return found


def check_service(inputs: Inputs, before: Sequence[Manifest], *, restricted: bool) -> tuple[PlanLine, ...]:
    """Return what the operator makes of a service of which KServe has made ``before``.

    ``restricted``: its namespace enforces the Pod Security Standard of that name.
    """
    if refused := mode_refused(inputs.body) or canary_refused(inputs.service, before):
        return (refused,)
    decision = decide(inputs)
    if decision.problem:
        return (blocking(decision.problem.message),)
    resolved = decision.resolved
    if resolved is None:
        return (ok("stopped: it has no pods"),)
    ignored = tuple(all_ignored_parts(inputs.service, resolved, inputs.own_config))
    return check_children(ServiceChange(inputs.body, before, decision.children, resolved, ignored, restricted))


async def _configuration(objects: LiveObjects, scope: MigrationScope) -> Mapping[str, str]:
    """Return the data of the ConfigMap that the operator will read."""
    given = [item for item in scope.manifests if (item["kind"], name_of(item)) == ("ConfigMap", CONFIG_MAP)]
    found = given[-1] if given else await objects.get(path_of("ConfigMap", OPERATOR_NAMESPACE, CONFIG_MAP))
    data: Mapping[str, str] = (found or {}).get("data") or {}
    return data


async def _of_cluster(objects: LiveObjects, data: Mapping[str, str]) -> tuple[PlanLine, ...]:
    kserves = await objects.get(path_of("ConfigMap", KSERVE_NAMESPACE, CONFIG_MAP)) or {}
    return check_cluster(
        manager=await objects.get(path_of("Deployment", KSERVE_NAMESPACE, KSERVE_MANAGER)),
        kserve_config=kserves.get("data") or {},
        config=data,
        staying={kind: number async for kind, number in _staying(objects)},
    )


async def _staying(objects: LiveObjects) -> AsyncIterator[tuple[str, int]]:
    """Yield the kinds that stay with KServe, and how many objects of them the cluster has.

    They are read as they are stored: to convert them takes a webhook of KServe.
    """
    for plural in _STAYING:
        crd = await objects.get(path(_CRDS, "customresourcedefinitions", name=f"{plural}.{GROUP}"))
        if crd is None:
            continue
        stored = next(item["name"] for item in crd["spec"]["versions"] if item["storage"])
        yield crd["spec"]["names"]["kind"], len(await objects.items(f"{GROUP}/{stored}", plural))


async def _all(objects: LiveObjects, api: str, plural: str, namespaces: Sequence[str]) -> list[Manifest]:
    found: list[Manifest] = []
    for namespace in namespaces or ("",):
        found += await objects.items(api, plural, namespace)
    return found
