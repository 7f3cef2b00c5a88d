"""The host names of a service, and the URLs in its status (contract §4.7)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.names import LABEL_VISIBILITY
from isvc_operator.config import IngressConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.placeholders import fill, values_of

# What the API server accepts as the host of an Ingress rule; it does not check the length of a label.
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_LABEL = 63  # characters, in DNS
_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True)
class Hosts:
    """The hosts of the service and, by kind, of its ``components``; that of the default template is the first.

    They are empty if the service can only be reached inside the cluster. ``urls`` are those of the components.
    ``taken`` maps hosts that belong to another service to its ``namespace/name``. ``displaced``: one of those is from
    the default template, so a URL has another host, or there is no URL.
    """

    service: tuple[str, ...]
    components: Mapping[str, tuple[str, ...]]
    url: str | None
    urls: Mapping[str, str]
    address: str
    taken: Mapping[str, str] = field(default_factory=dict)
    displaced: bool = False

    @property
    def external(self) -> bool:
        """Whether the service needs an Ingress."""
        return bool(self.service) or any(self.components.values())


def resolve_hosts(
    metadata: ObjectMeta,
    names: Mapping[str, str],
    *,
    address: str,
    config: IngressConfig,
    taken: Mapping[str, str] = _NOTHING,
) -> Hosts:
    """Return the hosts of a service and of its components, whose ``names`` are by kind.

    Hosts that are ``taken`` are left out; a URL has the first one that remains.
    """
    every = {kind: _hosts(metadata, name, config) for kind, name in {"": metadata.name, **names}.items()}
    free = {kind: tuple(host for host in hosts if host not in taken) for kind, hosts in every.items()}
    service, *components = free.items()
    external = has_ingress(metadata, config)
    return Hosts(
        service=service[1] if external else (),
        components=dict(components) if external else {},
        url=f"{config.url_scheme}://{service[1][0]}" if service[1] else None,
        urls={kind: f"http://{hosts[0]}" for kind, hosts in components if hosts},
        address=address,
        taken=taken,
        displaced=any(hosts[0] in taken for hosts in every.values()),
    )


def every_host(metadata: ObjectMeta, names: Mapping[str, str], config: IngressConfig) -> Iterator[str]:
    """Yield the hosts that the service's Ingress has if no other service has one of them."""
    if has_ingress(metadata, config):
        for name in (metadata.name, *names.values()):
            yield from _hosts(metadata, name, config)


def has_ingress(metadata: ObjectMeta, config: IngressConfig) -> bool:
    """Whether the service can be reached from outside the cluster."""
    return not (config.disable_ingress_creation or is_cluster_local(metadata, config))


def is_cluster_local(metadata: ObjectMeta, config: IngressConfig) -> bool:
    """Whether the service's label, or the domain itself, restricts it to the cluster."""
    return metadata.labels.get(LABEL_VISIBILITY) == "cluster-local" or config.ingress_domain == "svc.cluster.local"


def _hosts(metadata: ObjectMeta, name: str, config: IngressConfig) -> tuple[str, ...]:
    """Return the host for the URLs, then those of the additional templates that are valid in DNS."""
    values = {**values_of(metadata), "Name": name, "IngressDomain": config.ingress_domain}
    main = fill(config.domain_template, values)
    if not _HOST.fullmatch(main):
        raise InvalidSpec(
            f"host {main!r}, made by the domain template {config.domain_template!r}, is not a host name "
            "(labels of a-z, 0-9 and '-', at most 253 characters in all); use a shorter name, or another template"
        )
    others = (fill(template, values) for template in config.additional_domain_templates)
    return tuple(dict.fromkeys((main, *filter(_is_resolvable, others))))


def _is_resolvable(host: str) -> bool:
    return bool(_HOST.fullmatch(host)) and all(len(part) <= _LONGEST_LABEL for part in host.split("."))
