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

_DNS_NAME = re.compile(r"^(?=.{1,253}$)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$")


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
    values = {**values_of(metadata), "Name": name, "IngressDomain": config.ingress_domain}
    templates = (config.domain_template, *config.additional_domain_templates)
    hosts = [fill(template, values) for template in templates]
    for template, host in zip(templates, hosts, strict=True):
        if not _DNS_NAME.match(host):
            raise InvalidSpec(
                f"host {host!r}, made by the domain template {template!r}, is no DNS name "
                "(each part: a-z, 0-9 and '-', at most 63 characters); use a shorter name, or another template"
            )
    return tuple(dict.fromkeys(hosts))
