"""The Secret whose certificate pods serve TLS with, where its owner or the ConfigMap asks for it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.names import ANNOTATION_TLS_SECRET
from isvc_operator.config import OperatorConfig
from isvc_operator.errors import InvalidCertificate, InvalidSpec
from isvc_operator.resolve.placeholders import fill, values_of
from isvc_operator.resolve.storage.sources import ObjectReference, Objects, read_key

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
