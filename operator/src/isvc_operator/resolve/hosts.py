"""The host names of a service, the URLs in its status (docs/kserve.md), and which service gets a host. Pure.

Templates can produce the same host for different services: ``bank`` in ``pay-team`` and ``bank-pay`` in ``team``. If
two Ingresses had the same host, the ingress controller would decide which one gets the requests. The oldest service
gets it, then the first by namespace and name.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.names import LABEL_VISIBILITY
from isvc_operator.config import IngressConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import Manifest, name_of
from isvc_operator.resolve.placeholders import fill, values_of
from isvc_operator.resolve.requested import component_names

_HOST = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
# Characters, in DNS. The API server does not check those of a label.
_LONGEST_LABEL = 63
_LONGEST_HOST = 253
_HASH = 8  # characters at the end of a shortened label, after a hyphen
_NOTHING: Mapping[str, str] = {}
CLUSTER_LOCAL: Final = "cluster-local"  # the value of the label of a service that is not published


@dataclass(frozen=True)
class SharedPath:
    """A service's path on a host that all services share; its servers get requests without that path."""

    host: str
    path: str

    def __str__(self) -> str:
        return f"{self.host}{self.path}"


@dataclass(frozen=True)
class Hosts:
    """The hosts of the service and, by kind, of its ``components``; that of the default template is the first.

    They are empty if the service can only be reached inside the cluster. ``urls`` are those of the components.
    ``path`` is that of the service on a host which all services share. ``taken`` maps hosts, and a path with its host,
    that belong to another service to its ``namespace/name``. ``displaced``: one of those is for a URL, which has
    another host then, or there is no URL.
    """

    service: tuple[str, ...]
    components: Mapping[str, tuple[str, ...]]
    url: str | None
    urls: Mapping[str, str]
    address: str
    taken: Mapping[str, str] = field(default_factory=dict)
    displaced: bool = False
    path: SharedPath | None = None

    @property
    def external(self) -> bool:
        """Whether the service needs an Ingress or HTTPRoutes."""
        return bool(self.service or self.path) or any(self.components.values())


def resolve_hosts(
    metadata: ObjectMeta,
    names: Mapping[str, str],
    *,
    address: str,
    config: IngressConfig,
    taken: Mapping[str, str] = _NOTHING,
    only_grpc: bool = False,
) -> Hosts:
    """Return the hosts of a service and of its components, whose ``names`` are by kind.

    Hosts that are ``taken`` are left out; a URL has the first one that remains. A service that speaks nothing but gRPC
    (``only_grpc``) has no path, because a call cannot have a prefix.
    """
    every = {kind: _hosts(metadata, name, config) for kind, name in {"": metadata.name, **names}.items()}
    every[""] = tuple(dict.fromkeys((*every[""], *_on_additional_domains(metadata, config))))
    free = {kind: tuple(host for host in hosts if host not in taken) for kind, hosts in every.items()}
    service, *components = free.items()
    external = has_ingress(metadata, config)
    path = None if only_grpc else _shared_path(metadata, config)
    places = [*([str(path)] if path and str(path) not in taken else ()), *service[1]]
    return Hosts(
        service=service[1] if external else (),
        components=dict(components) if external else {},
        url=f"{config.url_scheme}://{places[0]}" if places else None,
        urls={kind: f"http://{hosts[0]}" for kind, hosts in components if hosts},
        address=address,
        taken=taken,
        displaced=any(hosts[0] in taken for hosts in every.values()) or str(path) in taken,
        path=path if external and str(path) not in taken else None,
    )


def every_host(metadata: ObjectMeta, names: Mapping[str, str], config: IngressConfig) -> Iterator[str]:
    """Yield the hosts, and the path with its host, that the service gets if no other service has one of them."""
    if has_ingress(metadata, config):
        for name in (metadata.name, *names.values()):
            yield from _hosts(metadata, name, config)
        yield from _on_additional_domains(metadata, config)
        if path := _shared_path(metadata, config):
            yield str(path)


def has_ingress(metadata: ObjectMeta, config: IngressConfig) -> bool:
    """Whether the service can be reached from outside the cluster."""
    return not config.disable_ingress_creation and (
        metadata.labels.get(LABEL_VISIBILITY) != CLUSTER_LOCAL and config.ingress_domain != "svc.cluster.local"
    )


def _hosts(metadata: ObjectMeta, name: str, config: IngressConfig) -> tuple[str, ...]:
    """Return the host for the URLs, then the others.

    If the host of the default template is too long for DNS, it is served as well as the shortened one, as with KServe:
    a client may send it as the header Host.
    """
    values = {**values_of(metadata), "Name": name, "IngressDomain": config.ingress_domain}
    written = fill(config.domain_template, values)
    if not (main := _within_dns(written)):
        raise InvalidSpec(
            f"host {written!r}, made by the domain template {config.domain_template!r}, is not a host name "
            f"(labels of a-z, 0-9 and '-', and a domain with room for {_HASH} characters within {_LONGEST_HOST}); use "
            "another template"
        )
    others = (_within_dns(fill(template, values)) for template in config.additional_domain_templates)
    as_written = written if len(written) <= _LONGEST_HOST else None
    return tuple(dict.fromkeys(filter(None, (main, as_written, *others))))


def _on_additional_domains(metadata: ObjectMeta, config: IngressConfig) -> Iterator[str]:
    """Yield the service's host on each additional domain, by each template."""
    for domain in config.additional_ingress_domains:
        values = {**values_of(metadata), "IngressDomain": domain}
        for template in (config.domain_template, *config.additional_domain_templates):
            if host := _within_dns(fill(template, values)):
                yield host


def _shared_path(metadata: ObjectMeta, config: IngressConfig) -> SharedPath | None:
    if not config.path_template or not (config.enable_gateway_api or config.path_ingress):
        return None
    return SharedPath(config.ingress_domain, fill(config.path_template, values_of(metadata)))


def _within_dns(host: str) -> str | None:
    """Return the host, with the labels that are too long for DNS cut and ended by a hash of the whole host.

    If it is too long in all, its first label is. None if it is not a host name, or the others are too long for that.
    """
    if not _HOST.fullmatch(host):
        return None
    digest = hashlib.sha256(host.encode()).hexdigest()[:_HASH]
    first, *domain = host.split(".")
    domain = [_cut(label, _LONGEST_LABEL, digest) for label in domain]
    room = min(_LONGEST_LABEL, _LONGEST_HOST - sum(len(label) + 1 for label in domain))
    return ".".join((_cut(first, room, digest), *domain)) if room > _HASH or len(first) <= room else None


def _cut(label: str, room: int, digest: str) -> str:
    if len(label) <= room:
        return label
    return f"{label[: room - len(digest) - 1].rstrip('-')}-{digest}".removeprefix("-")


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
        return frozenset(every_host(metadata, component_names(metadata.name, body.get("spec")), config))
    except InvalidSpec:
        return frozenset()
