"""Which labels and annotations are copied to pods and Services, and to the Ingress: none that affects another service.

An ingress controller serves all tenants with one configuration, and annotations change it: they can add a host name
(`server-alias`), lines of configuration (`configuration-snippet`), or take a share of another Ingress' requests
(`canary`). A value that the controller's server cannot read stops all changes of that configuration. So an annotation
is copied only if it is known to affect the service's own requests alone and its value can be read, or if the
administrator allows it. One that an ingress controller might have read is reported if it is left out.

Tools that apply the service from a repository keep their books in its labels and annotations. These say nothing about
its children, and pods would be replaced whenever they change. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from isvc_operator.api.names import NOT_OF_PODS
from isvc_operator.config import IngressConfig
from isvc_operator.manifests import LAST_APPLIED
from isvc_operator.resolve.component import Component, Context

_NEVER_COPIED: Final = (
    "autoscaling.knative.dev/min-scale",
    "autoscaling.knative.dev/max-scale",
    "internal.serving.kserve.io/storage-initializer-sourceuri",
    LAST_APPLIED,
    "modelFormat",
    *NOT_OF_PODS,
)
# What Argo CD, Flux, Helm, kapp, Fleet, Config Sync and kubectl write on the objects that they apply.
_BOOKKEEPING: Final = re.compile(
    r"argocd\.argoproj\.io/|([^/]*\.)?fluxcd\.(controlplane\.)?io/|(meta\.)?helm\.sh/|kapp\.k14s\.io/|"
    r"objectset\.rio\.cattle\.io/|config(sync|management)\.gke\.io/|config\.k8s\.io/|"
    r"app\.kubernetes\.io/(instance|managed-by)$|kubernetes\.io/change-cause$"
)
_NGINX: Final = "nginx.ingress.kubernetes.io/"
_CONTOUR: Final = "projectcontour.io/"
_HAPROXY: Final = ("haproxy.org/", "haproxy-ingress.github.io/")
_TRAEFIK: Final = "traefik.ingress.kubernetes.io/"
_CERT_MANAGER: Final = "cert-manager.io/"
# Timeouts, sizes, rates, protocols and addresses of the service's own requests, and restrictions of its clients.
_OWN_TRAFFIC: Final = frozenset(
    (
        *(
            _NGINX + name
            for name in (
                "affinity", "affinity-mode", "allowlist-source-range", "auth-realm", "auth-secret", "auth-secret-type",
                "auth-type", "backend-protocol", "client-body-buffer-size", "cors-allow-credentials",
                "cors-allow-headers", "cors-allow-methods", "cors-allow-origin", "cors-expose-headers", "cors-max-age",
                "denylist-source-range", "enable-cors", "enable-modsecurity", "enable-owasp-core-rules",
                "force-ssl-redirect", "limit-burst-multiplier", "limit-connections", "limit-rate", "limit-rate-after",
                "limit-rpm", "limit-rps", "load-balance", "proxy-body-size", "proxy-buffer-size", "proxy-buffering",
                "proxy-buffers-number", "proxy-busy-buffers-size", "proxy-connect-timeout", "proxy-http-version",
                "proxy-max-temp-file-size", "proxy-next-upstream", "proxy-next-upstream-timeout",
                "proxy-next-upstream-tries", "proxy-read-timeout", "proxy-request-buffering", "proxy-send-timeout",
                "service-upstream", "session-cookie-max-age", "session-cookie-name", "ssl-redirect",
                "whitelist-source-range",
            )
        ),
        *(
            _CONTOUR + name
            for name in (
                "num-retries", "per-try-timeout", "response-timeout", "retry-on", "tls-minimum-protocol-version",
                "websocket-routes",
            )
        ),
        *(
            prefix + name
            for prefix in _HAPROXY
            for name in (
                "allow-list", "allowlist-source-range", "balance-algorithm", "check", "deny-list",
                "denylist-source-range", "limit-connections", "limit-rps", "load-balance", "maxconn-server",
                "pod-maxconn", "proxy-body-size", "rate-limit-period", "rate-limit-requests", "ssl-redirect",
                "timeout-client", "timeout-connect", "timeout-http-request", "timeout-queue", "timeout-server",
                "timeout-tunnel", "whitelist-source-range",
            )
        ),
        *(
            _TRAEFIK + name
            for name in (
                "router.tls", "service.passhostheader", "service.sticky.cookie", "service.sticky.cookie.httponly",
                "service.sticky.cookie.name", "service.sticky.cookie.secure",
            )
        ),
        *(
            _CERT_MANAGER + name
            for name in (
                "cluster-issuer", "duration", "issuer", "issuer-group", "issuer-kind", "private-key-algorithm",
                "private-key-rotation-policy", "private-key-size", "renew-before", "revision-history-limit",
            )
        ),
        "external-dns.alpha.kubernetes.io/ttl", "kubernetes.io/ingress.allow-http", "kubernetes.io/tls-acme",
    )
)  # fmt: skip
# Of these, those that have the same effect on an HTTPRoute.
_OF_EVERY_ROUTE: Final = frozenset({"external-dns.alpha.kubernetes.io/ttl"})
# Enough for words, numbers, ranges and lists of them, and too little for a line of a controller's configuration.
_PLAIN: Final = re.compile(r"[A-Za-z0-9 ,.:/*%+_-]{0,1024}")
_NUMBER: Final = "[0-9]{1,9}"
_SIZE: Final = "[0-9]{1,6}[kKmM]?"
_SIZE_OF_BODY: Final = "[0-9]{1,6}[kKmMgG]?"
_SWITCH: Final = "on|off"
_ALGORITHM: Final = "roundrobin|static-rr|leastconn|first|source|uri|random"
# HAProxy takes less than 25 days.
_TIME: Final = "[0-9]{1,6}(us|ms|s)?|[0-9]{1,4}m|[0-9]{1,2}h|1?[0-9]d"
_ADDRESSES: Final = "[0-9A-Fa-f.:/, ]{0,1024}"  # not `patterns/x`, a file without which HAProxy does not start
_BUFFER, _BUFFERS, _BUSY, _TEMPORARY = (
    _NGINX + name
    for name in ("proxy-buffer-size", "proxy-buffers-number", "proxy-busy-buffers-size", "proxy-max-temp-file-size")
)
# The values of those that controllers write into the configuration of their server as they are. Buffers are in that
# server's memory: less than 100 MB for a request, and for a response.
_OF_NGINX: Final = {
    "backend-protocol": "(?i:HTTPS?|GRPCS?|AUTO_HTTP|FCGI)",
    "client-body-buffer-size": "[0-9]{1,7}|[0-9]{1,5}[kK]|[0-9]{1,2}[mM]",
    "cors-max-age": _NUMBER,
    "limit-burst-multiplier": "[1-9][0-9]{0,8}",
    "limit-connections": "[0-9]{1,4}|[1-5][0-9]{4}",  # less than 65536
    "limit-rate": _NUMBER,
    "limit-rate-after": _NUMBER,
    "limit-rpm": _NUMBER,
    "limit-rps": _NUMBER,
    "proxy-body-size": _SIZE_OF_BODY,
    "proxy-buffer-size": "[1-9][0-9]{0,5}|[1-9][0-9]{0,2}[kK]|1[mM]",
    "proxy-buffering": _SWITCH,
    "proxy-buffers-number": "[3-9]|[1-9][0-9]",  # two of them may be busy, and not all
    "proxy-busy-buffers-size": _SIZE,
    "proxy-connect-timeout": _NUMBER,
    "proxy-http-version": "1[.][01]",
    "proxy-max-temp-file-size": _SIZE,
    "proxy-next-upstream": (
        "((error|timeout|invalid_header|http_(500|502|503|504|403|404|429)|non_idempotent|off)( (?!$)|$))+"
    ),
    "proxy-next-upstream-timeout": _NUMBER,
    "proxy-next-upstream-tries": _NUMBER,
    "proxy-read-timeout": _NUMBER,
    "proxy-request-buffering": _SWITCH,
    "proxy-send-timeout": _NUMBER,
}
_OF_HAPROXY: Final = {
    "allow-list": _ADDRESSES,
    "balance-algorithm": _ALGORITHM,
    "deny-list": _ADDRESSES,
    "limit-connections": _NUMBER,
    "limit-rps": _NUMBER,
    "load-balance": _ALGORITHM,
    "maxconn-server": _NUMBER,
    "pod-maxconn": _NUMBER,
    "proxy-body-size": _SIZE_OF_BODY,
    "rate-limit-period": f"(?!0|.*us)({_TIME})",  # HAProxy divides by it, in milliseconds
    "rate-limit-requests": _NUMBER,
    "timeout-client": _TIME,
    "timeout-connect": _TIME,
    "timeout-http-request": _TIME,
    "timeout-queue": _TIME,
    "timeout-server": _TIME,
    "timeout-tunnel": _TIME,
}
VALUES: Final = {
    prefix + name: re.compile(pattern)
    for prefix, patterns in ((_NGINX, _OF_NGINX), *((prefix, _OF_HAPROXY) for prefix in _HAPROXY))
    for name, pattern in patterns.items()
}
# Of ingress-nginx's own buffers, which the administrator may have changed: surely not more.
_OWN_BUFFER: Final = "1m"
# Prefixes of annotations that ingress controllers and related controllers read.
_READ: Final = re.compile(
    r"([^/]*\.)?ingress\.[^/]*/|ingress\.kubernetes\.io/|kubernetes\.io/(ingress|tls-acme)|nginx\.(org|com)/|"
    r"appprotect\S*\.f5\.com/|([^/]*\.)?traefik\.io/|haproxy\.(org|com)/|haproxy-ingress\.github\.io/|"
    r"(projectcontour|contour\.heptio|konghq|getambassador|istio|tailscale)\.(io|com)/|([^/]*\.)?konghq\.com/|"
    r"k8s\.apisix\.apache\.org/|voyager\.appscode\.com/|networking\.gke\.io/|([^/]*\.)?router\.openshift\.io/|"
    r"([^/]*\.)?cert-?manager\.(io|k8s\.io)/|external-dns\.alpha\.kubernetes\.io/"
)
# Those that are also read from a Service: host names and routes.
_READ_OF_SERVICES: Final = re.compile(r"external-dns\.alpha\.kubernetes\.io/|getambassador\.io/")
# Those that no controller reads from a Service.
_READ_OF_INGRESSES: Final = re.compile(
    r"nginx\.(ingress\.kubernetes\.io|org|com)/|traefik\.ingress\.kubernetes\.io/router\.|kubernetes\.io/(ingress|tls-acme)|"
    r"([^/]*\.)?cert-?manager\.(io|k8s\.io)/"
)
# Parts of the names of annotations that restrict access: a service must not be published without one that it has.
_GUARD: Final = re.compile(
    r"auth|jwt|oidc|allow-?list|white-?list|deny-?list|black-?list|source-range|cidr|security-group|waf|modsecurity|"
    r"middlewares|plugins|polic(y|ies)$"
)


def labels_and_annotations(component: Component, context: Context) -> Component:
    """Return the component with those of the runtime, the service and the component; the last one wins."""
    ingress, lists = context.config.ingress, context.config.inference_service
    service, own = context.service.metadata, context.requested.spec
    runtime = context.served.chosen.runtime.spec if context.served else None
    labels, annotations = (
        {name: value for name, value in given.items() if not _BOOKKEEPING.match(name)}
        for given in (service.labels, service.annotations)
    )
    labels = {**((runtime and runtime.labels) or {}), **labels, **(own.labels or {})}
    annotations = {**((runtime and runtime.annotations) or {}), **annotations, **(own.annotations or {})}
    unwanted = {*_NEVER_COPIED, *lists.service_annotation_disallowed_list}
    return replace(
        component,
        labels={name: value for name, value in labels.items() if name not in lists.service_label_disallowed_list},
        annotations={
            name: value
            for name, value in annotations.items()
            if name not in unwanted and not may_reach_others(name, ingress)
        },
    )


@dataclass(frozen=True)
class IngressAnnotations:
    """The annotations for the Ingress, and the names of those that are left out.

    ``guards`` are those left out that would have restricted access.
    """

    allowed: Mapping[str, str]
    left_out: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()


def ingress_annotations(own: Mapping[str, str], config: IngressConfig) -> IngressAnnotations:
    """Divide the service's annotations into those for its Ingress and those left out."""
    allowed = {name: value for name, value in own.items() if _is_allowed(name, own, config)}
    left_out = tuple(name for name in own if name not in allowed and _READ.match(name))
    return IngressAnnotations(
        allowed, left_out, tuple(name for name in left_out if _GUARD.search(name.partition("/")[2]))
    )


def may_reach_others(name: str, config: IngressConfig) -> bool:
    """Whether an annotation of a Service could route the requests of another host to it."""
    return bool(_READ_OF_SERVICES.match(name)) and not _matches(name, config) and name not in _OWN_TRAFFIC


def is_read_of_ingresses(name: str) -> bool:
    """Whether controllers read an annotation from an Ingress only: it has no effect on the Service of a component."""
    return bool(_READ_OF_INGRESSES.match(name))


def has_unread_value(name: str, config: IngressConfig) -> bool:
    """Whether an annotation was left out for its value alone."""
    return name in _OWN_TRAFFIC and not config.enable_gateway_api


def _is_allowed(name: str, own: Mapping[str, str], config: IngressConfig) -> bool:
    """Gateways do not read the annotations of Ingress controllers: one that restricts access would be lost."""
    if config.enable_gateway_api and name not in _OF_EVERY_ROUTE:
        return _matches(name, config)
    return _matches(name, config) or (name in _OWN_TRAFFIC and _can_be_read(name, own))


def _can_be_read(name: str, own: Mapping[str, str]) -> bool:
    """Whether the server of a controller takes the value, together with the sizes of the service's buffers."""
    if not VALUES.get(name, _PLAIN).fullmatch(own[name]):
        return False
    buffer = own.get(_BUFFER, _OWN_BUFFER)
    if name == _TEMPORARY:
        size = _bytes(own[name])
        return size == 0 or bool(VALUES[_BUFFER].fullmatch(buffer) and size >= _bytes(buffer))
    if name == _BUSY:
        given = _BUFFERS in own and _BUFFER in own and all(_can_be_read(item, own) for item in (_BUFFER, _BUFFERS))
        return given and _bytes(buffer) <= _bytes(own[name]) <= (int(own[_BUFFERS]) - 1) * _bytes(buffer)
    return True


def _bytes(size: str) -> int:
    """Return the bytes of a size as nginx reads it."""
    unit = {"k": 1024, "m": 1024**2}.get(size[-1].lower())
    return int(size[:-1]) * unit if unit else int(size)


def _matches(name: str, config: IngressConfig) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in config.allowed_service_annotations)
