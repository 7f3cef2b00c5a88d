"""A certificate authority that nobody knows, and a certificate of it for loopback."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_AUTHORITY = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "A private authority")])
_SERVER = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
_LOOPBACK = x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))
_SIGNS = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True)
class Certificate:
    """Files in PEM: the authority that a client must trust, the server's certificate, its key."""

    authority: Path
    chain: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        """What a server of this certificate serves with."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.chain, self.key)
        return context


def issue(folder: Path, *names: x509.GeneralName, bare: bool = False, itself: bool = False) -> Certificate:
    """A new authority, and a certificate of it for hosts: loopback unless told otherwise.

    ``bare``: as older clusters have them, without key identifiers and without what the key may be used for.
    ``itself``: the server has the authority's own certificate.
    """
    folder.mkdir(parents=True, exist_ok=True)
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    of_authority: list[x509.ExtensionType] = [x509.BasicConstraints(ca=True, path_length=None)]
    of_server: list[x509.ExtensionType] = [x509.SubjectAlternativeName(names or [_LOOPBACK])]
    if itself:
        key, of_authority = authority_key, [*of_authority, *of_server]
    if not bare:
        of_authority += [_SIGNS, *_identifiers(authority_key, authority_key)]
        of_server += _identifiers(key, authority_key)
    authority = _sign(_AUTHORITY, authority_key, authority_key, of_authority)
    server = authority if itself else _sign(_SERVER, key, authority_key, of_server)
    made = Certificate(folder / "ca.crt", folder / "tls.crt", folder / "tls.key")
    made.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    made.chain.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    made.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return made


def _identifiers(
    key: ec.EllipticCurvePrivateKey, authority_key: ec.EllipticCurvePrivateKey
) -> list[x509.ExtensionType]:
    return [
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
    ]


def _sign(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    authority_key: ec.EllipticCurvePrivateKey,
    extensions: list[x509.ExtensionType],
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(_AUTHORITY)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
    for extension in extensions:
        critical = isinstance(extension, x509.BasicConstraints | x509.KeyUsage)
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(authority_key, hashes.SHA256())
