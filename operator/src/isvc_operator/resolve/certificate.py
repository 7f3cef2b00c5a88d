"""What a certificate says: for which hosts and for how long. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

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
