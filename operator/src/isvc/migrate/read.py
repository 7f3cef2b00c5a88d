"""Reads a cluster, renders its services as the operator would, and returns the plan. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from isvc.migrate.errors import MigrationRefused
from isvc.migrate.judge import ServiceChange, judge, mode_refused
from isvc.migrate.names import KSERVE_MANAGER, KSERVE_NAMESPACE, OPERATOR_NAMESPACE
from isvc.migrate.objects import LiveObjects, deployment_path, path
from isvc.migrate.plan import MigrationPlan, ServiceMigration, judge_cluster
from isvc.migrate.plan_line import PlanLine, blocking, ok
from isvc_operator.api.errors import InvalidObject
from isvc_operator.api.names import CONFIG_MAP
from isvc_operator.api.serving_runtime import ServingRuntime, parse_serving_runtime
from isvc_operator.api.storage_container import ClusterStorageContainer, parse_storage_container
from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.errors import InvalidSpec
from isvc_operator.kube.gather import read_service
from isvc_operator.kube.objects import ObjectReader, read_storage
from isvc_operator.limits import FILE_BYTES
from isvc_operator.manifests import Manifest, controller_of, labels_of, name_of
from isvc_operator.render.children import render
from isvc_operator.resolve.host_claims import HostClaims
from isvc_operator.resolve.ignored import ignored_parts, ignored_parts_of_runtime
from isvc_operator.resolve.runtime import Runtimes
from isvc_operator.resolve.service import is_stopped, resolve

SERVING = "serving.kserve.io"
_CHILDREN = (
    ("apps/v1", "deployments"),
    ("v1", "services"),
    ("networking.k8s.io/v1", "ingresses"),
    ("autoscaling/v2", "horizontalpodautoscalers"),
    ("keda.sh/v1alpha1", "scaledobjects"),
    ("gateway.networking.k8s.io/v1", "httproutes"),
    ("networking.istio.io/v1beta1", "virtualservices"),
)
_NOT_HANDLED = {"InferenceGraph": "inferencegraphs", "TrainedModel": "trainedmodels"}
_ENFORCED = "pod-security.kubernetes.io/enforce"


@dataclass(frozen=True)
class MigrationScope:
    """The namespaces to change over, all of them if empty, and the manifests that are installed with the operator."""

    namespaces: tuple[str, ...] = ()
    manifests: tuple[Manifest, ...] = ()


def read_manifests(files: Iterable[Path]) -> tuple[Manifest, ...]:
    """Return the objects in YAML files; raises MigrationRefused."""
    found: list[Manifest] = []
    for file in files:
        try:
            with file.open(encoding="utf-8") as stream:
                text = stream.read(FILE_BYTES + 1)
            if len(text) > FILE_BYTES:
                raise MigrationRefused(f"{file} has more than {FILE_BYTES} bytes; use a smaller one")
            documents = list(yaml.safe_load_all(text))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise MigrationRefused(f"{file} cannot be read: {' '.join(str(error).split())}") from error
        for document in documents:
            if document is None:
                continue
            if not isinstance(document, dict) or not {"apiVersion", "kind", "metadata"} <= document.keys():
                raise MigrationRefused(f"{file}: a document is no Kubernetes object")
            found.append(document)
    return tuple(found)


async def services_in(objects: LiveObjects, namespaces: Sequence[str]) -> list[Manifest]:
    """Return the services of these namespaces, all of them if none is named."""
    found = await _all(objects, f"{SERVING}/v1beta1", "inferenceservices", namespaces)
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
    config = parse_config(data)
    services = await services_in(objects, scope.namespaces)
    children = await children_of(objects, services)
    planner = _Planner(
        ObjectReader(objects.api, clock), config, await _runtimes(objects, scope), await _containers(objects)
    )
    every = services if not scope.namespaces else await services_in(objects, ())
    claims = HostClaims(config.ingress)
    for body in every:
        claims.put(body)
    restricted = {
        name_of(item)
        for item in await objects.items("v1", "namespaces")
        if labels_of(item).get(_ENFORCED) == "restricted"
    }
    plans = []
    for body in services:
        namespace, name = body["metadata"]["namespace"], name_of(body)
        lines = await planner.judge(
            body,
            children[body["metadata"]["uid"]],
            taken=claims.taken_from(namespace, name),
            restricted=namespace in restricted,
        )
        plans.append(ServiceMigration(namespace, name, lines))
    return MigrationPlan(await _of_cluster(objects, scope, data), tuple(plans))


@dataclass(frozen=True)
class _Planner:
    reader: ObjectReader
    config: OperatorConfig
    runtimes: tuple[ServingRuntime, ...]
    containers: tuple[ClusterStorageContainer, ...]

    async def judge(
        self, body: Manifest, before: Sequence[Manifest], *, taken: Mapping[str, str], restricted: bool
    ) -> tuple[PlanLine, ...]:
        if refused := mode_refused(body):
            return (refused,)
        service, problem = read_service(body)
        if problem is None and is_stopped(service):
            return (ok("stopped: it has no pods"),)
        try:
            if problem is not None:
                raise InvalidSpec(problem.message)
            storage = await read_storage(self.reader, service, containers=self.containers, config=self.config)
            runtimes = _usable(self.runtimes, body["metadata"]["namespace"])
            config = self.config.with_headless_services(_headless(before))
            resolved = resolve(service, runtimes, config, storage=storage, taken=taken)
            after = render(resolved, config)
        except InvalidSpec as error:
            return (blocking(str(error)),)
        of_runtime = ignored_parts_of_runtime(resolved.chosen.runtime) if resolved.chosen else ()
        ignored = (*ignored_parts(service, resolved, config), *of_runtime)
        return judge(ServiceChange(body, before, after, resolved, ignored, restricted))


def _headless(before: Iterable[Manifest]) -> bool:
    own = [item for item in before if item["kind"] == "Service"]
    return bool(own) and all(item["spec"].get("clusterIP") == "None" for item in own)


def _usable(runtimes: Iterable[ServingRuntime], namespace: str) -> Runtimes:
    every = tuple(runtimes)
    return Runtimes(
        namespaced=tuple(item for item in every if not item.cluster_wide and item.metadata.namespace == namespace),
        cluster=tuple(item for item in every if item.cluster_wide),
    )


async def _runtimes(objects: LiveObjects, scope: MigrationScope) -> tuple[ServingRuntime, ...]:
    """Return the installed runtimes, with those of the manifests over them; unreadable ones serve nothing."""
    found = [
        *await objects.items(f"{SERVING}/v1alpha1", "clusterservingruntimes"),
        *await objects.items(f"{SERVING}/v1alpha1", "servingruntimes"),
        *(item for item in scope.manifests if item["kind"] in ("ClusterServingRuntime", "ServingRuntime")),
    ]
    parsed = {}
    for body in found:
        try:
            parsed[body["kind"], body["metadata"].get("namespace"), name_of(body)] = parse_serving_runtime(body)
        except InvalidObject:
            continue
    return tuple(parsed.values())


async def _containers(objects: LiveObjects) -> tuple[ClusterStorageContainer, ...]:
    parsed = []
    for body in await objects.items(f"{SERVING}/v1alpha1", "clusterstoragecontainers"):
        try:
            parsed.append(parse_storage_container(body))
        except InvalidObject:
            continue
    return tuple(parsed)


async def _configuration(objects: LiveObjects, scope: MigrationScope) -> Mapping[str, str]:
    """Return the data of the ConfigMap that the operator will read."""
    given = [item for item in scope.manifests if (item["kind"], name_of(item)) == ("ConfigMap", CONFIG_MAP)]
    found = given[-1] if given else await objects.get(path("v1", "configmaps", OPERATOR_NAMESPACE, CONFIG_MAP))
    data: Mapping[str, str] = (found or {}).get("data") or {}
    return data


async def _of_cluster(objects: LiveObjects, scope: MigrationScope, data: Mapping[str, str]) -> tuple[PlanLine, ...]:
    kserves = await objects.get(path("v1", "configmaps", KSERVE_NAMESPACE, CONFIG_MAP)) or {}
    others = {
        kind: len(await _all(objects, f"{SERVING}/v1alpha1", plural, scope.namespaces))
        for kind, plural in _NOT_HANDLED.items()
    }
    return judge_cluster(
        manager=await objects.get(deployment_path(KSERVE_NAMESPACE, KSERVE_MANAGER)),
        kserve_config=kserves.get("data") or {},
        config=data,
        others=others,
    )


async def _all(objects: LiveObjects, api: str, plural: str, namespaces: Sequence[str]) -> list[Manifest]:
    found: list[Manifest] = []
    for namespace in namespaces or ("",):
        found += await objects.items(api, plural, namespace)
    return found
