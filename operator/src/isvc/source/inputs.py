"""What the operator decides from, read once and with a person's own rights: services, runtimes, children, objects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from isvc_operator.api import inference_service
from isvc_operator.api.kinds import ResourceKind, Role, kind_named, with_role
from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.config import OperatorConfig
from isvc_operator.controller.gather import gather, with_objects
from isvc_operator.decide import Inputs
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import NamespaceEnding, ObjectNotFound, RequestRefused
from isvc_operator.kube.informer.cache import Cache, key_of
from isvc_operator.kube.objects import ObjectReader
from isvc_operator.kube.requests import ApiRequest, collection_path, decode
from isvc_operator.manifests import Manifest, ServiceKey

_PAGE = "500"
_READ = (Role.SERVICE, Role.INPUT, Role.CHILD)


async def read_if_any(api: KubeApi, path: str) -> Manifest | None:
    """Return the object at a path; None if it does not exist. Raises KubeError."""
    try:
        found: Manifest = decode(await api.send(ApiRequest("GET", path)))
    except (ObjectNotFound, NamespaceEnding):  # the latter if it is a namespace
        return None
    return found


async def list_all(api: KubeApi, kind: ResourceKind, namespace: str = "") -> list[Manifest]:
    """Return the objects of a kind that the operator would watch; none if the cluster does not have the kind.

    Raises KubeError.
    """
    labels = LABEL_SERVICE if kind.selected_by_label else ""
    return await list_path(api, collection_path(kind, namespace), kind.api_version, labels=labels)


async def list_path(api: KubeApi, path: str, api_version: str, *, labels: str = "", fields: str = "") -> list[Manifest]:
    """Return all objects at a path, of any kind, as ``list_all`` does; ``labels`` and ``fields`` are selectors."""
    selectors = {"labelSelector": labels, "fieldSelector": fields}
    query = (("limit", _PAGE), *((name, text) for name, text in selectors.items() if text))
    found: list[Manifest] = []
    page = ""
    while True:
        request = ApiRequest("GET", path, (*query, ("continue", page)) if page else query)
        try:
            listed = decode(await api.send(request))
        except ObjectNotFound:
            return []
        kind = listed["kind"].removesuffix("List")
        found += [{"apiVersion": api_version, "kind": kind, **item} for item in listed.get("items") or ()]
        page = listed["metadata"].get("continue")
        if not page:
            return found


@dataclass
class ClusterInputs:
    """``cache`` has what was read, ``hidden`` the kinds that may not be read; ``objects`` reads others by name."""

    cache: Cache
    config: OperatorConfig
    objects: ObjectReader
    hidden: list[str] = field(default_factory=list)

    async def of(self, key: ServiceKey) -> Inputs | None:
        """Return what a decision about a service depends on; None if it does not exist.

        Raises KubeError for what it refers to.
        """
        inputs = gather(self.cache, key, self.config)
        return await with_objects(inputs, self.objects) if inputs else None

    def use(self, bodies: Iterable[Manifest]) -> None:
        """Put objects in the place of those that were read, as if they had been applied."""
        for body in bodies:
            known = self.cache.get(key_of(body)) or {"metadata": {"resourceVersion": "0", "uid": ""}}
            identity = {name: known["metadata"][name] for name in ("resourceVersion", "uid")}
            self.cache.put({**body, "metadata": {**identity, **body["metadata"]}})
        self.cache.hosts.use(self.config.ingress, list(self.cache.of_kind(inference_service.KIND)))


async def read_inputs(
    api: KubeApi, namespaces: Iterable[str], config: OperatorConfig, objects: ObjectReader
) -> ClusterInputs:
    """Read all that services of the namespaces are made from; what may not be read is named, and left out.

    Services of other namespaces are read as well, if that is allowed: they may have a host that is requested here. The
    namespace "" stands for all of them.
    """
    inputs = ClusterInputs(Cache(), config, objects)
    places = list(namespaces)
    for kind in with_role(*_READ):
        for namespace in places if kind.namespaced else ("",):
            await _add(api, inputs, kind, namespace)
    if "" not in places:
        try:
            others = await list_all(api, kind_named(inference_service.KIND))
        except RequestRefused:
            inputs.hidden.append("inferenceservices of other namespaces")
        else:
            for item in others:
                inputs.cache.put(item)
    inputs.cache.hosts.use(config.ingress, list(inputs.cache.of_kind(inference_service.KIND)))
    return inputs


async def _add(api: KubeApi, inputs: ClusterInputs, kind: ResourceKind, namespace: str) -> None:
    try:
        for item in await list_all(api, kind, namespace):
            inputs.cache.put(item)
    except RequestRefused:
        inputs.hidden.append(kind.plural)
