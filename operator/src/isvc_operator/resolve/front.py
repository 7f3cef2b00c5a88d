"""Steps for the container that gets the requests: TLS, and the payload logger; a variable of each tells the server.

Pods serve TLS with the certificate of a Secret, where its owner or the ConfigMap asks for it. All shipped runtimes and
our SDK read the folder in which the Secret is mounted. A transformer checks its predictor by the authority in the same
Secret.

For the payload logger, KServe adds a container to the pod, its agent. The variable has what the agent gets as
arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.components import LoggerSpec
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.names import (
    ANNOTATION_LOGGER_FRACTION,
    ANNOTATION_SETTINGS,
    ANNOTATION_TLS_SECRET,
    CONTAINER_TRANSFORMER,
)
from isvc_operator.config import OperatorConfig
from isvc_operator.errors import InvalidCertificate, InvalidSpec
from isvc_operator.manifests import Container
from isvc_operator.resolve.component import Component, Context
from isvc_operator.resolve.containers import merge_items, with_variable
from isvc_operator.resolve.placeholders import fill, values_of
from isvc_operator.resolve.ports import front_of
from isvc_operator.resolve.requested import settings_read
from isvc_operator.resolve.storage.plan import ObjectReference, Objects, read_key

_EXPIRES_SOON = 10  # a tenth of its lifetime: it should have been renewed by then


class UnusableCertificate(ValueError):
    """A certificate or a key that cannot be used; the message says why."""


@dataclass(frozen=True)
class ServerCertificate:
    """The server's certificate of a chain."""

    hosts: tuple[str, ...]
    begins: datetime
    ends: datetime

    def expires_soon(self, now: datetime) -> bool:
        """Whether it is past the time at which it is usually renewed."""
        return now >= self.ends - (self.ends - self.begins) / _EXPIRES_SOON

    def missing(self, hosts: Iterable[str]) -> tuple[str, ...]:
        """Return those of the hosts for which it is not valid."""
        return tuple(host for host in hosts if not any(_is_for(name, host) for name in self.hosts))


def read_certificate(chain: str, key: str) -> ServerCertificate:
    """Return what a chain in PEM says, whose first certificate has this key; raises UnusableCertificate."""
    from cryptography import x509  # only services that ask for TLS need it
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        first, *_ = x509.load_pem_x509_certificates(chain.encode())
    except ValueError as error:
        raise UnusableCertificate("tls.crt is not a certificate in PEM") from error
    try:
        private = load_pem_private_key(key.encode(), None)
    except (ValueError, TypeError) as error:
        raise UnusableCertificate("tls.key is not a private key in PEM without a password") from error
    if private.public_key() != first.public_key():
        raise UnusableCertificate("tls.key is not the key of the first certificate in tls.crt")
    try:
        names = first.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = tuple(names.get_values_for_type(x509.DNSName))
    except x509.ExtensionNotFound:
        hosts = ()
    return ServerCertificate(hosts, first.not_valid_before_utc, first.not_valid_after_utc)


def check_authorities(authorities: str) -> None:
    """Raise UnusableCertificate if the text has no certificates."""
    from cryptography import x509

    try:
        x509.load_pem_x509_certificates(authorities.encode())
    except ValueError as error:
        raise UnusableCertificate("ca.crt is not a certificate in PEM") from error


def _is_for(name: str, host: str) -> bool:
    """Whether a name of a certificate is this host; a first label ``*`` is any one label."""
    return name.lower() == host or (name.startswith("*.") and name[2:].lower() == host.partition(".")[2])


_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([-.a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True)
class ServingTls:
    """A Secret that a service's pods serve with. ``missing``: hosts for which its certificate is not valid.

    ``certificate`` is None if the Secret is not at hand, as for files that do not contain it.
    """

    secret: str
    certificate: ServerCertificate | None = None
    missing: tuple[str, ...] = ()


def tls_secret(service: InferenceService, config: OperatorConfig) -> ObjectReference | None:
    """Return the Secret that the service is to serve with, if it is; raises InvalidSpec for a name that is none."""
    annotations = service.metadata.annotations
    if ANNOTATION_TLS_SECRET in config.inference_service.service_annotation_disallowed_list:
        annotations = {}
    template = annotations.get(ANNOTATION_TLS_SECRET, config.service.tls_secret_name)
    if not template:
        return None
    name = fill(template, values_of(service.metadata))
    if name and not _NAME.fullmatch(name):
        raise InvalidSpec(f"annotation {ANNOTATION_TLS_SECRET}: {name!r} is not the name of a Secret")
    return ObjectReference("Secret", name) if name else None


def read_tls(reference: ObjectReference, objects: Objects, hosts: Iterable[str], *, calls: bool) -> ServingTls:
    """Return what the Secret has; raises InvalidCertificate. ``calls``: a component calls the predictor by it."""
    if reference not in objects:
        return ServingTls(reference.name)
    where, secret = f"secret {reference.name}, which the pods are to serve TLS with,", objects[reference]
    if secret is None:
        raise InvalidCertificate(
            f"{where} does not exist; create it with `kubectl create secret tls`, or let cert-manager do so"
        )
    found = {key: read_key(secret, key) for key in ("tls.crt", "tls.key", "ca.crt")}
    needed = ("tls.crt", "tls.key", *(("ca.crt",) if calls else ()))
    if missing := [key for key in needed if not found[key]]:
        why = ", the authority by which the transformer checks the predictor" if "ca.crt" in missing else ""
        raise InvalidCertificate(f"{where} has no key {' and '.join(missing)}{why}; add it")
    try:
        certificate = read_certificate(found["tls.crt"] or "", found["tls.key"] or "")
        if authorities := found["ca.crt"]:
            check_authorities(authorities)
    except UnusableCertificate as error:
        raise InvalidCertificate(f"{where} cannot be used: {error}; store it again as it was issued") from error
    return ServingTls(reference.name, certificate, certificate.missing(hosts))


TLS_DIR: Final = "TLS_DIR"
_VOLUME = "serving-tls"
_FOLDER = "/etc/tls/serving"
_MOUNT: Mapping[str, Any] = {"name": _VOLUME, "mountPath": _FOLDER, "readOnly": True}
_MODE = 0o440  # of the files, which belong to the group of the pod
_SCRAPE, _SCHEME = "prometheus.io/scrape", "prometheus.io/scheme"
_PROBES = ("readinessProbe", "livenessProbe", "startupProbe")
LOGGER: Final = "PAYLOAD_LOGGER"
# KServe's names of the volume and its folder.
_CA_VOLUME = "agent-ca-bundle"
_CA_FOLDER = "/etc/tls/logger"
_CA_MOUNT: Mapping[str, Any] = {"name": _CA_VOLUME, "mountPath": _CA_FOLDER, "readOnly": True}


def serving_tls(component: Component, context: Context) -> Component:
    """Return the component with the Secret, and with probes by HTTPS; raises InvalidSpec if its server reads none."""
    if context.secret is None:
        return component
    _check_reads(component, context)
    front = with_variable(front_of(component), TLS_DIR, _FOLDER)
    front["volumeMounts"] = merge_items(front.get("volumeMounts", ()), [_MOUNT], "mountPath")
    front |= {name: _by_https(front[name], f"{context.requested.field}: {name}") for name in _PROBES if front.get(name)}
    volume = {"name": _VOLUME, "secret": {"secretName": context.secret.name, "defaultMode": _MODE}}
    scraped = {_SCHEME: "https"} if _SCRAPE in component.annotations else {}
    secured = _with_front(component, front, volumes=merge_items(component.pod.get("volumes", ()), [volume], "name"))
    return replace(secured, tls=True, annotations={**scraped, **component.annotations})


def _with_front(component: Component, front: Container, **pod: Any) -> Component:
    """Return the component with another container that gets the requests, and with other fields of its pod."""
    before, fields = front_of(component), {**component.pod, **pod}
    if before is component.server:
        return replace(component, server=front, pod=fields)
    containers = [front if item is before else item for item in fields["containers"]]
    return replace(component, pod={**fields, "containers": containers})


def _check_reads(component: Component, context: Context) -> None:
    """Raise InvalidSpec unless the server says that it reads the variable: it would serve in the open."""
    if context.served and front_of(component) is component.server:
        runtime = context.served.chosen.runtime.metadata
        reads = settings_read(runtime.annotations)
        who = f"the server of runtime {runtime.name}"
        remedy = "choose another runtime"
    else:
        reads = settings_read(context.requested.spec.annotations or {})
        name = front_of(component).get("name") or CONTAINER_TRANSFORMER
        who = f"container {name} of {context.requested.field}"
        remedy = f"if it does, as with our SDK, write annotations: {{{ANNOTATION_SETTINGS}: {TLS_DIR}}} beside it"
    if TLS_DIR not in reads:
        raise InvalidSpec(
            f"the pods are to serve TLS, and {who} does not say that it reads {TLS_DIR}; {remedy}, or set "
            f'{ANNOTATION_TLS_SECRET} of the service to ""'
        )


def _by_https(probe: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the probe of a port that serves TLS; kubelets cannot probe gRPC over TLS."""
    if "grpc" in probe:
        raise InvalidSpec(f"{where}.grpc cannot reach a server over TLS; write httpGet or tcpSocket")
    if "httpGet" not in probe:
        return dict(probe)
    return {**probe, "httpGet": {**probe["httpGet"], "scheme": "HTTPS"}}


def url_problem(url: str) -> str | None:
    """Return why no payloads can be sent to this URL; the text does not repeat it, because it may hold a password.

    A server that gets such a URL would not start. KServe's agent also writes to object stores.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "it is not a URL; write one such as http://collector.logging"
    if parts.scheme not in ("http", "https"):
        return "payloads are sent to http:// and https:// only"
    if parts.username is not None:
        return "it contains a user name, which would not be sent; let the sink accept payloads without one"
    if not (parts.hostname and url.isascii() and url.isprintable()) or " " in url or port == 0:
        return "it is not the URL of a server; write one such as http://collector.logging"
    return None


def payload_logger(component: Component, context: Context) -> Component:
    """Return the component with its logger, if it has one that can be served."""
    logger, config = context.requested.spec.logger, context.config.logger
    url = (logger and logger.url) or config.default_url
    if logger is None or url_problem(url):
        return component
    ca_bundle = config.ca_bundle if urlsplit(url).scheme == "https" else ""
    settings = _settings(component, logger, url, context.service.metadata)
    if ca_bundle:
        settings["caFile"] = f"{_CA_FOLDER}/{config.ca_cert_file}"
    if config.tls_skip_verify:
        settings["tlsSkipVerify"] = True
    # Kubernetes would replace $(NAME) by another variable.
    value = json.dumps(settings, ensure_ascii=False).replace("$(", "$$(")
    front = with_variable(front_of(component), LOGGER, value)
    if not ca_bundle:
        return _with_front(component, front)
    front["volumeMounts"] = [*front.get("volumeMounts", ()), _CA_MOUNT]
    # As with KServe, pods start without the ConfigMap, and the system's certificates are used.
    volume = {"name": _CA_VOLUME, "configMap": {"name": ca_bundle, "optional": True}}
    return _with_front(component, front, volumes=merge_items(component.pod.get("volumes", ()), [volume], "name"))


def fraction_of(annotations: Mapping[str, str]) -> float | None:
    """Return the fraction of the requests to log, if an annotation has one; raises InvalidSpec."""
    if (text := annotations.get(ANNOTATION_LOGGER_FRACTION)) is None:
        return None
    try:
        fraction = float(text)
    except ValueError:
        fraction = 0.0
    if not 0 < fraction <= 1:
        raise InvalidSpec(
            f"annotation {ANNOTATION_LOGGER_FRACTION} is {text!r}; write the fraction of the requests to log, such as "
            "0.1: above 0, and at most 1"
        )
    return fraction


def _settings(component: Component, logger: LoggerSpec, url: str, service: ObjectMeta) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "url": url,
        "mode": logger.mode,
        "inferenceService": service.name,
        "namespace": service.namespace or "",
        "component": component.kind,
    }
    if logger.metadata_headers:
        settings["metadataHeaders"] = list(logger.metadata_headers)
    there = [name for name in logger.metadata_annotations or () if name in component.annotations]
    if there:
        settings["annotations"] = {name: component.annotations[name] for name in there}
    if (fraction := fraction_of(component.annotations)) is not None:
        settings["fraction"] = fraction
    return settings
