"""Renders the children of services in files: exactly what the operator would apply to a cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.names import ANNOTATION_STOP
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.api.unknown_fields import unknown_fields
from isvc_operator.config import OperatorConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.local.documents import Documents
from isvc_operator.manifests import Manifest
from isvc_operator.render.children import render
from isvc_operator.resolve.host_claims import HostClaims
from isvc_operator.resolve.runtime import Runtimes
from isvc_operator.resolve.service import Resolved, is_stopped, resolve
from isvc_operator.resolve.storage.objects import ObjectReference, Objects
from isvc_operator.resolve.storage.plan import StorageContext
from isvc_operator.resolve.storage.requests import storage_requests
from isvc_operator.resolve.support import refused_annotations, unread_settings, unsupported_parts, unused_fields
from isvc_operator.resolve.unserved import unserved_parts


@dataclass(frozen=True)
class Rendered:
    """A service, its children in the order of rendering, and the objects that they may refer to."""

    service: InferenceService
    children: tuple[Manifest, ...]
    objects: Objects
    resolved: Resolved


def render_services(given: Documents, installed: Sequence[ServingRuntime], config: OperatorConfig) -> list[Rendered]:
    """Render every service that is not stopped; runtimes in the files replace installed ones of the same name."""
    runtimes = {
        (item.kind, item.metadata.namespace, item.metadata.name): item for item in (*installed, *given.runtimes)
    }
    claims = HostClaims(config.ingress)
    for item in given.services:
        claims.put(item.as_dict())
    given = replace(given, runtimes=tuple(runtimes.values()))
    return [_rendered(item, given, config, claims) for item in given.services if not is_stopped(item)]


def warnings(given: Documents, config: OperatorConfig) -> Iterator[str]:
    """Yield a line for each part of the files that has no effect."""
    for name in given.ignored:
        yield f"{name}: not an object that services are made from; ignored"
    resources: tuple[InferenceService | ServingRuntime, ...] = (*given.services, *given.runtimes)
    for resource in resources:
        for field in unknown_fields(resource):
            yield f"{resource.kind} {resource.metadata.name}: unknown field {field}"
    for runtime in given.runtimes:
        for field in unused_fields(runtime):
            yield f"{runtime.kind} {runtime.metadata.name}: not used: {field}"
    for service in given.services:
        for what in unsupported_parts(service, config.credentials):
            yield f"{service.kind} {service.metadata.name}: not supported: {what}"
        for what in refused_annotations(service, config.ingress):
            yield f"{service.kind} {service.metadata.name}: {what}"
        if is_stopped(service):
            yield f"{service.kind} {service.metadata.name}: stopped by its annotation {ANNOTATION_STOP}; left out"


def warnings_of_rendered(rendered: Iterable[Rendered]) -> Iterator[str]:
    """Yield a line for each setting that a server does not use, and for each host that belongs to another service."""
    for item in rendered:
        name = f"{item.service.kind} {item.service.metadata.name}"
        for what in (*unread_settings(item.service, item.resolved.chosen), *unserved_parts(item.resolved)):
            yield f"{name}: {what}"
        for host, holder in item.resolved.hosts.taken.items():
            yield f"{name}: host {host} belongs to {item.service.kind} {holder}"


def _rendered(service: InferenceService, given: Documents, config: OperatorConfig, claims: HostClaims) -> Rendered:
    objects = {
        ObjectReference(body["kind"], body["metadata"]["name"]): body
        for body in given.objects
        if body["metadata"]["namespace"] == service.metadata.namespace
    }
    taken = claims.taken_from(service.metadata.namespace or "", service.metadata.name)
    try:
        storage = StorageContext(storage_requests(service), given.storage_containers, objects)
        resolved = resolve(service, _usable(service, given.runtimes), config, storage=storage, taken=taken)
    except InvalidSpec as error:
        raise InvalidSpec(f"{service.kind} {service.metadata.name}: {error}", error.reason) from error
    return Rendered(service, tuple(render(resolved, config)), objects, resolved)


def _usable(service: InferenceService, runtimes: Sequence[ServingRuntime]) -> Runtimes:
    own = [item for item in runtimes if not item.cluster_wide]
    return Runtimes(
        namespaced=tuple(item for item in own if item.metadata.namespace == service.metadata.namespace),
        cluster=tuple(item for item in runtimes if item.cluster_wide),
    )
