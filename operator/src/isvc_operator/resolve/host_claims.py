"""Which service gets a host that several request: the oldest one, then the first by namespace and name. Pure.

Templates can produce the same host for different services: ``bank`` in ``pay-team`` and ``bank-pay`` in ``team``. If
two Ingresses had the same host, the ingress controller would decide which one gets the requests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from isvc_operator.api.base import ObjectMeta
from isvc_operator.config import IngressConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import Manifest, name_of
from isvc_operator.resolve.components import component_names
from isvc_operator.resolve.hosts import every_host


class Claimant(NamedTuple):
    """A service; of several claimants the smallest one gets the host."""

    created: str
    namespace: str
    name: str


class HostClaims:
    """An index of the hosts that services request, updated with each change of a service."""

    def __init__(self, config: IngressConfig) -> None:
        self.use(config, ())

    def use(self, config: IngressConfig, services: Iterable[Manifest]) -> None:
        """Rebuild the index with other templates."""
        self._config = config
        self._hosts: dict[Claimant, frozenset[str]] = {}
        self._known: dict[tuple[str, str], Claimant] = {}
        self._claimants: defaultdict[str, set[Claimant]] = defaultdict(set)
        self._changed: set[tuple[str, str]] = set()
        for body in services:
            self.put(body)

    def put(self, body: Manifest) -> None:
        """Add a service, or update it."""
        metadata = body["metadata"]
        claimant = Claimant(metadata.get("creationTimestamp") or "", metadata.get("namespace", ""), name_of(body))
        before = self._known.get(claimant[1:], claimant)
        hosts = claimed_hosts(body, self._config)
        if before == claimant and self._hosts.get(claimant) == hosts:
            return
        holders = self._holders({*hosts, *self._hosts.get(before, ())})
        self._forget(before)
        self._known[claimant[1:]] = claimant
        self._hosts[claimant] = hosts
        for host in hosts:
            self._claimants[host].add(claimant)
        self._note_changes(holders)

    def remove(self, body: Manifest) -> None:
        """Remove a service."""
        removed = self._known.pop((body["metadata"].get("namespace", ""), name_of(body)), None)
        if removed is not None:
            holders = self._holders(self._hosts[removed])
            self._forget(removed)
            self._note_changes(holders)

    def taken_from(self, namespace: str, name: str) -> dict[str, str]:
        """Return the requested hosts that belong to another service, each with that one as ``namespace/name``."""
        claimant = self._known.get((namespace, name))
        holders = self._holders(self._hosts[claimant]) if claimant else {}
        return {host: f"{item.namespace}/{item.name}" for host, item in sorted(holders.items()) if item != claimant}

    def take_changed(self) -> set[tuple[str, str]]:
        """Return namespaces and names of services that have gained or lost a host since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def _holders(self, hosts: Iterable[str]) -> dict[str, Claimant]:
        return {host: min(self._claimants[host]) for host in hosts if self._claimants.get(host)}

    def _forget(self, claimant: Claimant) -> None:
        for host in self._hosts.pop(claimant, ()):
            self._claimants[host].discard(claimant)
            if not self._claimants[host]:
                del self._claimants[host]

    def _note_changes(self, before: Mapping[str, Claimant]) -> None:
        for host, holder in before.items():
            claimants = self._claimants.get(host, set())
            if claimants and min(claimants) != holder:
                self._changed.update(item[1:] for item in claimants)


def claimed_hosts(body: Manifest, config: IngressConfig) -> frozenset[str]:
    """Return every host that the service's Ingress should have.

    A stopped service keeps its hosts, and so do one that cannot be served as it is written now and a predictor that
    only its transformer reaches. So this reads only the metadata and the names of the components, of a spec that may be
    invalid.
    """
    fields = ("name", "namespace", "labels", "annotations")
    metadata = ObjectMeta.model_validate({name: body["metadata"].get(name) for name in fields})
    try:
        return frozenset(every_host(metadata, _names(metadata.name, body.get("spec")), config))
    except InvalidSpec:
        return frozenset()


def _names(service: str, spec: Any) -> dict[str, str]:
    predictor = _field(_field(spec, "predictor"), "name")
    return component_names(
        service,
        predictor=predictor if isinstance(predictor, str) else None,
        transformer=isinstance(_field(spec, "transformer"), Mapping),
        explainer=bool(_field(_field(spec, "explainer"), "containers")),
    )


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None
