"""Where a service answers: from its status, and from the Ingress or the Gateway that routes to it. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from isvc.inference.protocol import InferenceProtocol
from isvc.predict.errors import PredictFailed, UnusableRequest
from isvc.predict.fields import is_field, server_url
from isvc.predict.payload import PredictPayload
from isvc.view.diagnosis import diagnose
from isvc.view.headlines import headline
from isvc.view.service import view_of
from isvc.view.source import Related
from isvc_operator.api.names import LABEL_COMPONENT, PREDICTOR, READY, TRANSFORMER
from isvc_operator.manifests import Manifest, condition_of, labels_of
from isvc_operator.resolve.ports import is_grpc
from isvc_operator.text import one_line

_PORTS = {"http": 80, "https": 443}
_DEFAULT_DOMAIN = "example.com"  # of hosts, where the configuration names no other


@dataclass(frozen=True)
class Target:
    """Where requests go: ``url`` with what its path begins with, and the Host header if it is not that of the URL.

    ``socket``: a socket of this machine that leads there; the URL's address is then only a name.
    """

    url: str
    host: str | None = None
    socket: Path | None = None
    authorization: str = ""
    """The user and the password of the URL that somebody gave, as the header has them."""
    protocol: InferenceProtocol | None = None
    """That the service declares."""
    samples: Mapping[str, PredictPayload] = field(default_factory=dict)
    """Requests that fit its models, where they are known beside what a model says of its inputs."""
    trouble: str = ""
    """What is wrong with the service, which may be why it does not answer."""

    def headers(self) -> dict[str, str]:
        """Return the headers that each request there needs."""
        found = {"Host": self.host or "", "Authorization": self.authorization}
        return {name: value for name, value in found.items() if value}


def of_url(url: str, name: str, namespace: str, host: str | None) -> Target:
    """Return the target for a URL that somebody gave: an ingress, or with a path the service itself.

    An address without a path is an ingress, such as that of ``isvc run``, which knows services by their hosts.
    Raises UnusableRequest for what is not a URL or no host.
    """
    try:
        url, authorization = server_url(url)
    except UnusableRequest as error:
        raise UnusableRequest(f"--url: {error}") from error
    parts = urlsplit(url)
    if parts.query:
        raise UnusableRequest(f"--url: {url!r} has a query; write it without ?{parts.query}")
    if host and not is_field("Host", host):
        raise UnusableRequest(f"--host {host!r} cannot be a host; write NAME or NAME:PORT")
    path = parts.path.rstrip("/")
    if not host and not path and _is_address(parts.hostname or ""):
        host = f"{name}.{namespace}.{_DEFAULT_DOMAIN}"
    return Target(f"{parts.scheme}://{parts.netloc}{path}", host, authorization=authorization)


def _is_address(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def trouble_of(related: Related) -> str:
    """Return the state of a service and the first cause, in a line; empty while nothing is wrong with it.

    So it is while a ready pod of each component answers: a pod that is to replace it does not explain its answers.
    """
    found = diagnose(view_of(related))
    if found.healthy or _answers(related.pods):
        return ""
    first = found.findings[0]
    cause = one_line(headline(first.cause)).rstrip(".")
    name = f"{found.name} -n {found.namespace}"
    return f"{found.name} is {found.health.value}: {first.reason}: {cause}; isvc diagnose {name} says more"


def _answers(pods: Sequence[Manifest]) -> bool:
    """Whether each component that has pods has a ready one."""
    components = {labels_of(pod).get(LABEL_COMPONENT) for pod in pods}
    return bool(pods) and components == {labels_of(pod).get(LABEL_COMPONENT) for pod in pods if is_ready(pod)}


def of_service(service: Manifest, address: str | None) -> Target:
    """Return the target for a service: its URL, by way of ``address`` if that is known.

    Raises PredictFailed for a service that has no URL.
    """
    url = published_url(service)
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    if not address:
        return Target(f"{parts.scheme}://{parts.netloc}{path}")
    return Target(f"{parts.scheme}://{_with_port(address, parts.port or _PORTS[parts.scheme])}{path}", parts.netloc)


def declared_protocol(service: Manifest) -> InferenceProtocol | None:
    """Return the protocol of HTTP that the service's spec declares, if it does.

    Raises PredictFailed for a service whose first port is gRPC's: by its ``protocolVersion``, or by its port's name.
    """
    if entry_of(service) == TRANSFORMER:  # speaks what it likes, whatever the predictor behind it speaks
        return None
    predictor = service.get("spec", {}).get("predictor") or {}
    models = [part for part in predictor.values() if isinstance(part, dict) and "protocolVersion" in part]
    version = str(models[0]["protocolVersion"]) if models else ""
    container: Manifest = next(iter(predictor.get("containers") or ()), {})
    names = [str(port.get("name", "")) for port in container.get("ports") or ()]
    if version.startswith("grpc") or (names and all(map(is_grpc, names))):
        raise PredictFailed(
            f"{_named(service)} is served by gRPC, which this command does not speak; use a client of gRPC such as "
            "grpcurl"
        )
    return InferenceProtocol(version) if version in ("v1", "v2") else None


def published_url(service: Manifest) -> str:
    """Return the service's URL; raises PredictFailed if it has none, with what its status says instead."""
    url = service.get("status", {}).get("url")
    if isinstance(url, str) and urlsplit(url).scheme in _PORTS:
        return url
    raise PredictFailed(f"{_named(service)} has no URL yet: {what_is_missing(service)}")


def what_is_missing(service: Manifest) -> str:
    """Return the message of the condition Ready, or what to look at without one."""
    ready = condition_of(service, READY)
    words = ready.get("message") or ready.get("reason")
    return str(words) if words else "its status is empty; is the operator running? isvc doctor tells"


def _named(service: Manifest) -> str:
    return f"InferenceService {service['metadata']['name']}"


def _with_port(address: str, port: int) -> str:
    """Return ``address`` with a port; an IPv6 address gets its brackets."""
    try:
        if ipaddress.ip_address(address).version == 6:
            return f"[{address}]:{port}"
    except ValueError:
        try:
            has_port = urlsplit(f"//{address}").port is not None
        except ValueError:
            has_port = None
        if has_port is None or "/" in address:
            raise UnusableRequest(
                f"--address {address}: write HOST or HOST:PORT, without a scheme and a path"
            ) from None
        if has_port:
            return address
    return f"{address}:{port}"


def address_of_ingress(ingress: Manifest) -> str | None:
    """Return the address that the ingress controller has published, if it has."""
    published = ingress.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
    return next((entry.get("ip") or entry.get("hostname") for entry in published), None)


def gateway_of(route: Manifest) -> tuple[str, str] | None:
    """Return the namespace and the name of the Gateway that a route belongs to."""
    namespace = route["metadata"]["namespace"]
    parents = route.get("spec", {}).get("parentRefs") or ()
    return next((((parent.get("namespace") or namespace), parent["name"]) for parent in parents), None)


def address_of_gateway(gateway: Manifest, scheme: str) -> str | None:
    """Return the address of the Gateway, with the port of its listener for ``scheme``, if it has one."""
    address = next((entry["value"] for entry in gateway.get("status", {}).get("addresses") or ()), None)
    listeners = gateway.get("spec", {}).get("listeners") or ()
    port = next((found["port"] for found in listeners if found.get("protocol") == scheme.upper()), None)
    return _with_port(address, port) if address and port else address


def entry_of(service: Manifest) -> str:
    """Return the component that gets a service's requests."""
    return TRANSFORMER if service.get("spec", {}).get("transformer") else PREDICTOR


def target_port(service: Manifest, pod: Manifest) -> int | None:
    """Return the port of the pod to which a Kubernetes Service sends what its first port gets."""
    port: Manifest = next(iter(service.get("spec", {}).get("ports") or ()), {})
    wanted = port.get("targetPort", port.get("port"))
    if isinstance(wanted, int):
        return wanted
    containers = pod.get("spec", {}).get("containers") or ()
    offered = (offer for container in containers for offer in container.get("ports") or ())
    return next((offer["containerPort"] for offer in offered if offer.get("name") == wanted), None)


def is_ready(pod: Manifest) -> bool:
    """Whether requests may go to the pod."""
    return "deletionTimestamp" not in pod["metadata"] and condition_of(pod, READY).get("status") == "True"
