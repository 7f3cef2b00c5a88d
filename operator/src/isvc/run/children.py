"""Renders the children of services in files: exactly what the operator would apply to a cluster. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from isvc.run.documents import Documents
from isvc.run.errors import Unserved
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.config import OperatorConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import Manifest, ServiceKey
from isvc_operator.render.children import render
from isvc_operator.resolve.host_claims import HostClaims
from isvc_operator.resolve.runtime import Runtimes
from isvc_operator.resolve.service import Resolved, is_stopped, resolve
from isvc_operator.resolve.storage.objects import ObjectReference, Objects
from isvc_operator.resolve.storage.plan import StorageContext
from isvc_operator.resolve.storage.requests import storage_requests


@dataclass(frozen=True)
class Rendered:
    """A service, its children in the order of rendering, and what they were made from.

    ``objects`` are those that the children may refer to, ``runtimes`` those that the service may use.
    """

    service: InferenceService
    children: tuple[Manifest, ...]
    objects: Objects
    resolved: Resolved
    runtimes: Runtimes
    config: OperatorConfig

    @property
    def key(self) -> ServiceKey:
        """The identity of the service."""
        return ServiceKey(self.service.metadata.namespace or "", self.service.metadata.name)


def render_services(
    given: Documents, installed: Sequence[ServingRuntime], config: OperatorConfig, *, tls: bool = True
) -> tuple[list[Rendered], list[Unserved]]:
    """Render every service that is not stopped, and return why others cannot be served.

    Runtimes in the files replace installed ones of the same name. ``tls``: pods serve TLS if that is asked for.
    """
    runtimes = {
        (item.kind, item.metadata.namespace, item.metadata.name): item for item in (*installed, *given.runtimes)
    }
    claims = HostClaims(config.ingress)
    for item in given.services:
        claims.put(item.as_dict())
    given = replace(given, runtimes=tuple(runtimes.values()))
    rendered, invalid = [], []
    for item in given.services:
        try:
            if not is_stopped(item):
                rendered.append(_rendered(item, given, config, claims, tls=tls))
        except Unserved as error:
            invalid.append(error)
    return rendered, invalid


def _rendered(
    service: InferenceService, given: Documents, config: OperatorConfig, claims: HostClaims, *, tls: bool
) -> Rendered:
    objects = {
        ObjectReference(body["kind"], body["metadata"]["name"]): body
        for body in given.objects
        if body["metadata"]["namespace"] == service.metadata.namespace
    }
    taken = claims.taken_from(service.metadata.namespace or "", service.metadata.name)
    runtimes = _usable(service, given.runtimes)
    try:
        storage = StorageContext(storage_requests(service), given.storage_containers, objects)
        resolved = resolve(service, runtimes, config, storage=storage, taken=taken, tls=tls)
    except InvalidSpec as error:
        raise Unserved(service, error) from error
    return Rendered(service, tuple(render(resolved, config)), objects, resolved, runtimes, config)


def _usable(service: InferenceService, runtimes: Sequence[ServingRuntime]) -> Runtimes:
    own = [item for item in runtimes if not item.cluster_wide]
    return Runtimes(
        namespaced=tuple(item for item in own if item.metadata.namespace == service.metadata.namespace),
        cluster=tuple(item for item in runtimes if item.cluster_wide),
    )
