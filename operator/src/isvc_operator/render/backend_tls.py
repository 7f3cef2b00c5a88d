"""What ingress controllers read to speak TLS to the pods of a service: annotations of its Services and Ingresses."""

from __future__ import annotations

from collections.abc import Mapping

from isvc_operator.resolve.component import Component, service_port, service_ports
from isvc_operator.resolve.containers import is_grpc
from isvc_operator.resolve.service import Resolved

_CONTOUR = "projectcontour.io/upstream-protocol"
_TRAEFIK = "traefik.ingress.kubernetes.io/service.serversscheme"


def backend_annotations(component: Component) -> dict[str, str]:
    """Return the annotations of a component's Service: Contour's and Traefik's."""
    if not component.tls:
        return {}
    ports = [(str(number), is_grpc(port.get("name", ""))) for number, port in service_ports(component)]
    http, grpc = (",".join(number for number, found in ports if found is kind) for kind in (False, True))
    named = {f"{_CONTOUR}.tls": http, f"{_CONTOUR}.h2": grpc, _TRAEFIK: "https"}
    return {name: value for name, value in named.items() if value}


def route_annotations(resolved: Resolved) -> Mapping[str, str]:
    """Return the annotations of a service's Ingresses: those of ingress-nginx and of the two for HAProxy."""
    entry = resolved.transformer or resolved.predictor
    if not entry.tls:
        return {}
    only_grpc = service_port(entry, grpc=False) is None
    return {
        "nginx.ingress.kubernetes.io/backend-protocol": "GRPCS" if only_grpc else "HTTPS",
        "haproxy-ingress.github.io/backend-protocol": "grpcs" if only_grpc else "h1-ssl",
        "haproxy.org/server-ssl": "true",
    }
