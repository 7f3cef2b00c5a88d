"""Where the environment says a bundle of CA certificates is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

_FILE = "cabundle.crt"


def ca_bundle(environment: Mapping[str, str]) -> str:
    """The source's own bundle before the cluster's; empty for the system's certificates alone."""
    if own := environment.get("AWS_CA_BUNDLE"):
        return own
    folder = environment.get("CA_BUNDLE_VOLUME_MOUNT_POINT")
    if folder and environment.get("CA_BUNDLE_CONFIGMAP_NAME"):
        return str(PurePosixPath(folder) / _FILE)
    return ""
