"""The URIs that a component requests, each with its destination folder."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from posixpath import commonpath
from typing import Any, Final

from isvc_operator.api.components import StorageUri
from isvc_operator.api.names import ANNOTATION_PVC_MODE, MODELS_MOUNT
from isvc_operator.config import StorageInitializerConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.limits import URI_CHARACTERS
from isvc_operator.manifests import Container
from isvc_operator.text import one_line

STORAGE_URI = "STORAGE_URI"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@dataclass(frozen=True)
class StorageScheme:
    """What the operator has to know of a scheme that the storage-initializer downloads.

    ``remote``: whether it is read over the network, so that credentials, certificates and the cache matter.
    """

    name: str
    remote: bool = True


# The schemes of the storage-initializer (its schemes.py); ``tests/contract/test_storage_initializer.py`` names those
# that only one of the two tables has.
SCHEMES: Final = {
    scheme.name: scheme
    for scheme in (
        StorageScheme("pvc", remote=False),
        StorageScheme("file", remote=False),
        StorageScheme("s3"),
        StorageScheme("gs"),
        StorageScheme("hf"),
        StorageScheme("http"),
        StorageScheme("https"),
    )
}

# As in the storage-initializer's schemes.py, which the same contract test compares.
_AZURE = r"(?:core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net)|storage\.azure\.net)(?::\d+)?/.*"
_SERVICES = (
    (re.compile(rf"https?://[^/?#]+\.(?:blob|dfs)\.{_AZURE}", re.IGNORECASE), "Azure Blob Storage"),
    (re.compile(rf"https?://[^/?#]+\.file\.{_AZURE}", re.IGNORECASE), "Azure Files"),
    (re.compile(r"https?://[^?#]+\.git/?(?:[?#].*)?", re.IGNORECASE), "a Git repository"),
)
_LOGIN = re.compile(r"^([^/]*://)[^/]*@")


@dataclass(frozen=True)
class StorageSource:
    """One URI and its destination folder. A scheme is case-insensitive, a path is taken literally."""

    uri: str
    destination: str

    @property
    def scheme(self) -> str:
        """The scheme in lower case; ``file`` for a plain path."""
        match = _SCHEME.match(self.uri)
        return match[1].lower() if match else "file"

    @property
    def shown(self) -> str:
        """The URI for messages, without what may be a secret: a password, or a signature in the query."""
        return repr(_LOGIN.sub(r"\1…@", self.uri.partition("?")[0]))

    @property
    def remote(self) -> bool:
        """Whether it is read over the network; an unknown scheme is."""
        return self.scheme not in SCHEMES or SCHEMES[self.scheme].remote

    @property
    def foreign_service(self) -> str | None:
        """The service behind an https URI that only a ClusterStorageContainer can read."""
        return next((name for pattern, name in _SERVICES if pattern.fullmatch(self.uri)), None)

    @property
    def claim(self) -> str | None:
        """The PersistentVolumeClaim of a ``pvc://`` URI."""
        return self._parts[0] if self.scheme == "pvc" else None

    @property
    def path(self) -> str:
        """The path inside the claim."""
        return self._parts[2].strip("/")

    @property
    def _parts(self) -> tuple[str, str, str]:
        return self.uri.partition("://")[2].partition("/")


def given_sources(
    uri: str | None, several: Sequence[StorageUri] | None, *, path_in_secret: bool = False
) -> tuple[StorageSource, ...]:
    """Return the URIs in the spec; none if it names a path in the storage secret, or no storage at all."""
    if several and uri:
        raise InvalidSpec("storageUri and storageUris are both given; move storageUri into storageUris")
    if uri and path_in_secret:
        raise InvalidSpec("storageUri and storage.path are both given; remove one of them")
    if uri:
        return (checked(StorageSource(uri, MODELS_MOUNT)),)
    return tuple(checked(StorageSource(item.uri, str(PurePosixPath(item.mount_path)))) for item in several or ())


def stored_uri(container: Container) -> str | None:
    """Return the URI in the variable ``STORAGE_URI`` of the user's own container (docs/storage.md)."""
    uri = next((item.get("value") for item in container.get("env", ()) if item["name"] == STORAGE_URI), None)
    return uri if isinstance(uri, str) else None


def with_stored_path(container: Container) -> dict[str, Any]:
    """Replace the URI in that variable by the path of the downloaded model."""
    if not stored_uri(container):
        return dict(container)
    env = [{**item, "value": MODELS_MOUNT} if item["name"] == STORAGE_URI else item for item in container["env"]]
    return {**container, "env": env}


def checked(source: StorageSource) -> StorageSource:
    """Return the source if its URI is well-formed; raises InvalidSpec otherwise."""
    if len(source.uri) > URI_CHARACTERS:
        raise InvalidSpec(f"storageUri {one_line(source.uri, 100)!r} has more than {URI_CHARACTERS} characters")
    if source.claim == "":
        raise InvalidSpec(f"storageUri {source.shown} names no claim; write pvc://CLAIM or pvc://CLAIM/PATH")
    if source.claim and ".." in source.path.split("/"):
        raise InvalidSpec(f"storageUri {source.shown} has '..' in its path; name the folder of the claim itself")
    return source


def common_folder(sources: Sequence[StorageSource]) -> str:
    """Return the folder above all destinations, where the volume that the sources share is mounted."""
    folder = commonpath([source.destination for source in sources])
    if folder == "/":
        raise InvalidSpec(
            "the mountPaths of storageUris have no folder in common; put them under one, such as /mnt/models"
        )
    return folder


def mounts_claims(annotations: Mapping[str, str], config: StorageInitializerConfig) -> bool:
    """Whether claims are mounted instead of copied; the annotation wins over the configuration."""
    mode = annotations.get(ANNOTATION_PVC_MODE)
    if mode not in (None, "copy", "direct"):
        raise InvalidSpec(f"annotation {ANNOTATION_PVC_MODE} is {mode!r}; write copy or direct")
    return mode == "direct" if mode else config.enable_direct_pvc_volume_mount
