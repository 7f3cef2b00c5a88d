"""Which certificates are trusted, from the environment."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from storage_initializer.errors import CertificateError

_FILE = "cabundle.crt"


@dataclass(frozen=True)
class Trust:
    """``ca_file`` is trusted in addition to the system's certificates; it is not read where nothing is verified.

    ``own`` is whether the source's credentials name it, not the cluster's administrator for all sources.
    """

    verify: bool = True
    ca_file: str = ""
    own: bool = False

    def check(self) -> None:
        """Raise CertificateError if the source's own bundle is missing, even for plain HTTP, as KServe does."""
        if self.verify and self.own and not Path(self.ca_file).is_file():
            raise _unusable(self.ca_file, "No such file or directory")

    def bundle(self) -> bytes:
        """Return the certificates of ``ca_file``; empty where there are none to read."""
        if not self.verify or not self.ca_file:
            return b""
        _load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), self.ca_file)
        return Path(self.ca_file).read_bytes()


def trust_of(environment: Mapping[str, str], *, verify: bool = True) -> Trust:
    """Return the source's own bundle, else the cluster's, else the system's certificates alone. Pure."""
    if own := environment.get("AWS_CA_BUNDLE"):
        return Trust(verify, own, own=True)
    folder = environment.get("CA_BUNDLE_VOLUME_MOUNT_POINT")
    if folder and environment.get("CA_BUNDLE_CONFIGMAP_NAME"):
        return Trust(verify, str(PurePosixPath(folder) / _FILE))
    return Trust(verify)


def tls_context(trust: Trust) -> ssl.SSLContext:
    context = ssl.create_default_context()
    # Python 3.13 also refuses certificates without key identifiers, and authorities without a key usage; private ones
    # often lack them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not trust.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif trust.ca_file:
        _load(context, trust.ca_file)
    return context


def _load(context: ssl.SSLContext, ca_file: str) -> None:
    try:
        context.load_verify_locations(ca_file)
    except OSError as error:
        raise _unusable(ca_file, error.strerror or str(error)) from None


def _unusable(ca_file: str, why: str) -> CertificateError:
    return CertificateError(f"the CA bundle {ca_file} cannot be used ({why}); give it as PEM")
