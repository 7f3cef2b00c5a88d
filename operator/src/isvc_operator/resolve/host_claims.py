"""Which service has a host where several ask for it: the oldest one, then the first by namespace and name. Pure.

Templates make the same host of different services: ``bank`` in ``pay-team`` and ``bank-pay`` in ``team``. Two Ingresses
with one host leave it to the ingress controller who gets the requests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.names import EXPLAINER, PREDICTOR, TRANSFORMER, predictor_name, wrapper_name
from isvc_operator.config import IngressConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.hosts import every_host

Manifest = Mapping[str, Any]


class Claimant(NamedTuple):
    """A service, in the order in which claims count."""

    created: str
    namespace: str
    name: str


class HostClaims:
    """The hosts that services ask for, kept up to date with each of them; no service is looked at twice."""

    def __init__(self, config: IngressConfig) -> None:
        self.use(config, ())

    def use(self, config: IngressConfig, services: Iterable[Manifest]) -> None:
        """Begin anew with other templates."""
        self._config = config
        self._hosts: dict[Claimant, frozenset[str]] = {}
        self._known: dict[tuple[str, str], Claimant] = {}
        self._claimants: defaultdict[str, set[Claimant]] = defaultdict(set)
        self._changed: set[tuple[str, str]] = set()
        for body in services:
            self.put(body)

    def put(self, body: Manifest) -> None:
        """A service is there, or has changed."""
        metadata = body["metadata"]
        claimant = Claimant(metadata.get("creationTimestamp") or "", metadata.get("namespace", ""), metadata["name"])
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
        """A service is gone."""
        gone = self._known.pop((body["metadata"].get("namespace", ""), body["metadata"]["name"]), None)
        if gone is not None:
            holders = self._holders(self._hosts[gone])
            self._forget(gone)
            self._note_changes(holders)

    def taken_from(self, namespace: str, name: str) -> dict[str, str]:
        """The hosts that a service asks for and another one has, each with that one as ``namespace/name``."""
        claimant = self._known.get((namespace, name))
        holders = self._holders(self._hosts[claimant]) if claimant else {}
        return {host: f"{item.namespace}/{item.name}" for host, item in sorted(holders.items()) if item != claimant}

    def take_changed(self) -> set[tuple[str, str]]:
        """Namespaces and names of services whose hosts others have given or taken since this was asked last."""
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
    """Every host that the service's Ingress is to have, as far as its metadata and the names of its parts tell.

    A stopped service keeps its hosts, and so does one that cannot be served as it is written now.
    """
    fields = ("name", "namespace", "labels", "annotations")
    metadata = ObjectMeta.model_validate({name: body["metadata"].get(name) for name in fields})
    try:
        return frozenset(every_host(metadata, _names(metadata.name, body.get("spec")), config))
    except InvalidSpec:
        return frozenset()


def _names(service: str, spec: Any) -> dict[str, str]:
    """Names of the components' Services by kind, of a spec that nobody has looked at yet."""
    own = _field(_field(spec, "predictor"), "name")
    names = {PREDICTOR: predictor_name(service, own if isinstance(own, str) else None)}
    if isinstance(_field(spec, "transformer"), Mapping):
        names[TRANSFORMER] = wrapper_name(service, TRANSFORMER)
    if _field(_field(spec, "explainer"), "containers"):
        names[EXPLAINER] = wrapper_name(service, EXPLAINER)
    return names


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None
