"""The host names under which a service answers, and the URLs that its status shows (contract §4.7)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.names import LABEL_VISIBILITY
from isvc_operator.config import IngressConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.placeholders import fill, values_of

# What the API server takes for the host of an Ingress rule; it does not look at the length of a part.
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_PART = 63  # characters, in DNS


@dataclass(frozen=True)
class Hosts:
    """``service`` and each of ``components``, by its kind, list every host name, that of the default template first.

    All are empty where the service is reachable inside the cluster only. ``urls`` are those of the components.
    """

    service: tuple[str, ...]
    components: Mapping[str, tuple[str, ...]]
    url: str
    urls: Mapping[str, str]
    address: str

    @property
    def external(self) -> bool:
        """Whether an Ingress is wanted."""
        return bool(self.service)


def resolve_hosts(metadata: ObjectMeta, names: Mapping[str, str], address: str, config: IngressConfig) -> Hosts:
    """Hosts of the service named by ``metadata``, and of its components' Services, whose ``names`` are by kind."""
    service_hosts = _hosts(metadata, metadata.name, config)
    components = {kind: _hosts(metadata, name, config) for kind, name in names.items()}
    external = not (config.disable_ingress_creation or is_cluster_local(metadata, config))
    return Hosts(
        service=service_hosts if external else (),
        components=components if external else {},
        url=f"{config.url_scheme}://{service_hosts[0]}",
        urls={kind: f"http://{hosts[0]}" for kind, hosts in components.items()},
        address=address,
    )


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
