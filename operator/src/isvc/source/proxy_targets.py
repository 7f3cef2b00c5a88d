"""How requests reach pods and services through the API server. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from isvc.limits import DASHBOARD_ANSWER_SECONDS
from isvc_operator.api.names import LABEL_APP, app_label
from isvc_operator.limits import API_RESPONSE_SECONDS
from isvc_operator.manifests import Manifest, labels_of, name_of
from isvc_operator.resolve.ports import is_grpc

_PORTS: Final = {"http": 80, "https": 443}
_SAID_SECONDS: Final = 5.0  # in which a server says that a request has taken too long


@dataclass(frozen=True)
class ProxyTarget:
    """A port of the pod or the Service called ``name``, and the scheme that is spoken there."""

    name: str
    port: int
    scheme: str = "http"

    @property
    def proxied(self) -> str:
        """The name for the API server's proxy."""
        return f"{self.scheme}:{self.name}:{self.port}"


def service_target(service: Manifest) -> ProxyTarget | None:
    """Return the Service that takes the requests of an InferenceService; None until it has an address."""
    try:
        url = urlsplit(str(((service.get("status") or {}).get("address") or {}).get("url") or ""))
        port = url.port or 80
    except ValueError:
        return None
    name = (url.hostname or "").partition(".")[0]
    return ProxyTarget(name, port, url.scheme) if name and url.scheme in _PORTS else None


def answer_seconds(service: Manifest) -> float:
    """Return for how long to wait for a response of the service: a moment longer than it may take, within limits."""
    components = (service.get("spec") or {}).values()
    timeouts = [item.get("timeout") for item in components if isinstance(item, Mapping)]
    asked = [value + _SAID_SECONDS for value in timeouts if isinstance(value, int)]
    return min(max([API_RESPONSE_SECONDS, *asked]), DASHBOARD_ANSWER_SECONDS)


def metrics_target(pod: Manifest, children: Iterable[Manifest]) -> ProxyTarget | None:
    """Return where the server of a pod has its metrics; None if it speaks no HTTP, or its Service is not there."""
    app = labels_of(pod).get(LABEL_APP)
    services = (item for item in children if item["kind"] == "Service" and app_label(name_of(item)) == app)
    for port in (port for service in services for port in service["spec"].get("ports") or ()):
        target = port.get("targetPort")
        if isinstance(target, int) and not _is_grpc(port):
            return ProxyTarget(name_of(pod), target, "https" if port.get("appProtocol") == "https" else "http")
    return None


def _is_grpc(port: Mapping[str, Any]) -> bool:
    return is_grpc(port.get("name", "")) or port.get("appProtocol") == "kubernetes.io/h2c"
