"""The host names under which a service answers, and the URLs that its status shows (contract §4.7)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.names import LABEL_VISIBILITY
from isvc_operator.config import IngressConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.placeholders import fill, values_of

_DNS_NAME = re.compile(r"^(?=.{1,253}$)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$")


@dataclass(frozen=True)
class Hosts:
    """``service`` and ``predictor`` list every host name, that of the default template first.

    Both are empty where the service is reachable inside the cluster only.
    """

    service: tuple[str, ...]
    predictor: tuple[str, ...]
    url: str
    predictor_url: str
    address: str

    @property
    def external(self) -> bool:
        """Whether an Ingress is wanted."""
        return bool(self.service)


def resolve_hosts(metadata: ObjectMeta, predictor: str, config: IngressConfig) -> Hosts:
    """Hosts of the service named by ``metadata`` and of its predictor's Service."""
    service_hosts = _hosts(metadata, metadata.name, config)
    predictor_hosts = _hosts(metadata, predictor, config)
    address = f"http://{predictor}.{metadata.namespace}.svc.cluster.local"
    external = not (config.disable_ingress_creation or is_cluster_local(metadata, config))
    return Hosts(
        service=service_hosts if external else (),
        predictor=predictor_hosts if external else (),
        url=f"{config.url_scheme}://{service_hosts[0]}",
        predictor_url=f"http://{predictor_hosts[0]}",
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
