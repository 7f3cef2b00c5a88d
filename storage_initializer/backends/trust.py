"""Which certificates are believed, and where the environment says a bundle of more is."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from storage_initializer.errors import CertificateError

_FILE = "cabundle.crt"


@dataclass(frozen=True)
class Trust:
    """``ca_file`` comes on top of the system's certificates."""

    verify: bool = True
    ca_file: str = ""


def ca_bundle(environment: Mapping[str, str]) -> str:
    """The source's own bundle before the cluster's; empty for the system's certificates alone. Pure."""
    if own := environment.get("AWS_CA_BUNDLE"):
        return own
    folder = environment.get("CA_BUNDLE_VOLUME_MOUNT_POINT")
    if folder and environment.get("CA_BUNDLE_CONFIGMAP_NAME"):
        return str(PurePosixPath(folder) / _FILE)
    return ""


def tls_context(trust: Trust) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if trust.ca_file:
        try:
            context.load_verify_locations(trust.ca_file)
        except OSError as error:
            raise CertificateError(
                f"the CA bundle {trust.ca_file} cannot be used ({error.strerror or error}); give it as PEM"
            ) from None
    if not trust.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
