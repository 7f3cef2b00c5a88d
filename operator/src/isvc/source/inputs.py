"""What the operator decides from, read once and with a person's own rights: services, runtimes, children, objects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from isvc_operator.api import inference_service
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.kinds import SCALED_OBJECT, ResourceKind, Role, kind_named, with_role
from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.config import OperatorConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.kube import requests
from isvc_operator.kube.cache import Cache
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.discovery import Discovery
from isvc_operator.kube.errors import ObjectNotFound, RequestRefused
from isvc_operator.kube.gather import Gathered, gather, read_service
from isvc_operator.kube.nesting import decode
from isvc_operator.kube.objects import ObjectReader, read_storage
from isvc_operator.manifests import Manifest, ServiceKey
from isvc_operator.resolve.service import Resolved, asks_for_keda, resolve

_PAGE = 500
_READ = (Role.SERVICE, Role.INPUT, Role.CHILD)


async def list_all(api: KubeApi, kind: ResourceKind, namespace: str = "") -> list[Manifest]:
    """Return the objects of a kind that the operator would watch; none if the cluster does not have the kind.

    Raises KubeError.
    """
    found: list[Manifest] = []
    page = ""
    while True:
        try:
            listed = decode(await api.send(requests.list_objects(kind, namespace, page=page, limit=_PAGE)))
        except ObjectNotFound:
            return []
        found += [{"apiVersion": kind.api_version, "kind": kind.name, **item} for item in listed.get("items") or ()]
        page = listed.get("metadata", {}).get("continue") or ""
        if not page:
            return found


@dataclass
class Inputs:
    """``cache`` has what was read, ``hidden`` the kinds that may not be read; ``objects`` reads others by name."""

    cache: Cache
    config: OperatorConfig
    objects: ObjectReader
    discovery: Discovery
    hidden: list[str] = field(default_factory=list)

    def gathered(self, key: ServiceKey) -> Gathered | None:
        """Return what is known of a service; None if it does not exist."""
        return gather(self.cache, key)

    async def resolved(self, gathered: Gathered) -> tuple[InferenceService, Resolved]:
        """Decide about the service as the operator does; raises InvalidSpec, and KubeError for what it refers to."""
        service, problem = read_service(gathered.body)
        if problem is not None:
            raise InvalidSpec(problem.message, problem.reason)
        config = gathered.config(self.config)
        storage = await read_storage(self.objects, service, containers=gathered.storage_containers, config=config)
        keda = not asks_for_keda(service) or await self.discovery.has(SCALED_OBJECT)
        return service, resolve(
            service,
            gathered.runtimes,
            config,
            storage=storage,
            taken=gathered.taken_hosts,
            budgets=gathered.budgets,
            keda=keda,
        )


async def read_inputs(
    api: KubeApi, namespaces: Iterable[str], config: OperatorConfig, *, objects: ObjectReader, discovery: Discovery
) -> Inputs:
    """Read all that services of the namespaces are made from; what may not be read is named, and left out.

    Services of other namespaces are read as well, if that is allowed: they may have a host that is requested here.
    """
    inputs = Inputs(Cache(LABEL_SERVICE), config, objects, discovery)
    kinds = with_role(*_READ)
    services = kind_named(inference_service.KIND)
    for kind in kinds:
        for namespace in namespaces if kind.namespaced else ("",):
            await _add(api, inputs, kind, namespace)
    try:
        others = await list_all(api, services)
    except RequestRefused:
        inputs.hidden.append("inferenceservices of other namespaces")
    else:
        for item in others:
            inputs.cache.put(item)
    inputs.cache.hosts.use(config.ingress, list(inputs.cache.of_kind(inference_service.KIND)))
    return inputs


async def _add(api: KubeApi, inputs: Inputs, kind: ResourceKind, namespace: str) -> None:
    try:
        for item in await list_all(api, kind, namespace):
            inputs.cache.put(item)
    except RequestRefused:
        inputs.hidden.append(kind.plural)
