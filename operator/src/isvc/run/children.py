"""Renders the children of services in files: exactly what the operator would apply to a cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from isvc.run.documents import Documents
from isvc.run.errors import Unserved
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.config import OperatorConfig
from isvc_operator.decide import Inputs, decide
from isvc_operator.manifests import Manifest, ServiceKey
from isvc_operator.resolve.hosts import HostClaims
from isvc_operator.resolve.runtime import Runtimes
from isvc_operator.resolve.service import Resolved
from isvc_operator.resolve.storage.plan import Objects


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
    rendered, invalid = [], []
    for inputs in inputs_in(given, installed, config, tls=tls):
        decision = decide(inputs)
        if decision.problem:
            invalid.append(Unserved(inputs.service, decision.problem))
        elif decision.resolved:
            children = tuple(decision.rendered)
            rendered.append(
                Rendered(inputs.service, children, inputs.objects, decision.resolved, inputs.runtimes, config)
            )
    return rendered, invalid


def inputs_in(
    given: Documents, installed: Sequence[ServingRuntime], config: OperatorConfig, *, tls: bool = True
) -> Iterator[Inputs]:
    """Yield what a decision about each service in the files depends on; nothing of a cluster is known."""
    claims = HostClaims(config.ingress)
    for service in given.services:
        claims.put(service.as_dict())
    for service in given.services:
        namespace = service.metadata.namespace
        yield Inputs(
            body=service.as_dict(),
            service=service,
            config=config,
            runtimes=runtimes_for(namespace, given, installed),
            storage_containers=given.storage_containers,
            objects=given.objects_in(namespace),
            taken_hosts=claims.taken_from(namespace or "", service.metadata.name),
            tls=tls,
        )


def runtimes_for(namespace: str | None, given: Documents, installed: Sequence[ServingRuntime]) -> Runtimes:
    """Return the runtimes that a service of the namespace may use."""
    runtimes = {
        (item.kind, item.metadata.namespace, item.metadata.name): item for item in (*installed, *given.runtimes)
    }
    return Runtimes(
        namespaced=tuple(
            item for item in runtimes.values() if not item.cluster_wide and item.metadata.namespace == namespace
        ),
        cluster=tuple(item for item in runtimes.values() if item.cluster_wide),
    )
