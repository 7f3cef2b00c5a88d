"""The host names under which a service answers, and the URLs that its status shows (contract §4.7)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.names import LABEL_VISIBILITY
from isvc_operator.config import IngressConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.placeholders import fill, values_of

# What the API server takes for the host of an Ingress rule; it does not look at the length of a part.
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_PART = 63  # characters, in DNS
_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True)
class Hosts:
    """``service`` and each of ``components``, by its kind, list every host name, that of the default template first.

    All are empty where the service is reachable inside the cluster only. ``urls`` are those of the components.
    ``taken`` are those that another service has, which is given as ``namespace/name``; ``displaced``: one of them is
    what the default template makes, so a URL shows another host, or there is none.
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
        """Whether an Ingress is wanted."""
        return bool(self.service) or any(self.components.values())


def resolve_hosts(
    metadata: ObjectMeta,
    names: Mapping[str, str],
    address: str,
    config: IngressConfig,
    taken: Mapping[str, str] = _NOTHING,
) -> Hosts:
    """Hosts of the service named by ``metadata``, and of its components' Services, whose ``names`` are by kind.

    Those that are ``taken`` are left out; a URL shows the first of the others, if there is one.
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
    """The hosts that the service's Ingress would have if nobody else had one of them."""
    if has_ingress(metadata, config):
        for name in (metadata.name, *names.values()):
            yield from _hosts(metadata, name, config)


def has_ingress(metadata: ObjectMeta, config: IngressConfig) -> bool:
    """Whether the service shall be reachable from outside the cluster."""
    return not (config.disable_ingress_creation or is_cluster_local(metadata, config))


def is_cluster_local(metadata: ObjectMeta, config: IngressConfig) -> bool:
    """Whether the service's label, or the domain itself, keeps it inside the cluster."""
    return metadata.labels.get(LABEL_VISIBILITY) == "cluster-local" or config.ingress_domain == "svc.cluster.local"


def _hosts(metadata: ObjectMeta, name: str, config: IngressConfig) -> tuple[str, ...]:
    """The host that the URLs show, and those beside it that can be looked up: they are for convenience only."""
    values = {**values_of(metadata), "Name": name, "IngressDomain": config.ingress_domain}
    main = fill(config.domain_template, values)
    if not _HOST.fullmatch(main):
        raise InvalidSpec(
            f"host {main!r}, made by the domain template {config.domain_template!r}, is no host name "
            "(parts of a-z, 0-9 and '-', at most 253 characters in all); use a shorter name, or another template"
        )
    others = (fill(template, values) for template in config.additional_domain_templates)
    return tuple(dict.fromkeys((main, *filter(_is_resolvable, others))))


def _is_resolvable(host: str) -> bool:
    return bool(_HOST.fullmatch(host)) and all(len(part) <= _LONGEST_PART for part in host.split("."))
