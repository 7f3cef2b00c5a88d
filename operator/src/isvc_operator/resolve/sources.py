"""What a component wants to have brought into its pod: URIs, each with the folder that it goes to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from posixpath import commonpath
from typing import Any

from isvc_operator.api.components import StorageUri
from isvc_operator.api.names import ANNOTATION_PVC_MODE, MODELS_MOUNT
from isvc_operator.config import StorageInitializerConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.limits import URI_CHARACTERS
from isvc_operator.text import one_line

# What the storage-initializer brings without anybody's credentials: it lies in the pod.
_LOCAL = ("pvc", "file")
STORAGE_URI = "STORAGE_URI"
SCHEMES = (*_LOCAL, "s3", "gs", "http", "https")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@dataclass(frozen=True)
class Source:
    """One URI and the folder that it goes to. A scheme is read in any case, a path literally."""

    uri: str
    destination: str

    @property
    def scheme(self) -> str:
        """``file`` for a plain path."""
        match = _SCHEME.match(self.uri)
        return match[1].lower() if match else "file"

    @property
    def remote(self) -> bool:
        """Whether it comes over the network, where somebody may want to know who asks."""
        return self.scheme not in _LOCAL

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
) -> tuple[Source, ...]:
    """The URIs that the spec names; none where it names a path in a storage secret, or no storage at all."""
    if several and uri:
        raise InvalidSpec("storageUri and storageUris are both given; move storageUri into storageUris")
    if uri and path_in_secret:
        raise InvalidSpec("storageUri and storage.path are both given; remove one of them")
    if uri:
        return (checked(Source(uri, MODELS_MOUNT)),)
    return tuple(checked(Source(item.uri, str(PurePosixPath(item.mount_path)))) for item in several or ())


def stored_uri(container: Mapping[str, Any]) -> str | None:
    """The URI in the variable by which a user's own container asks for its model, where it has one (contract §5.1)."""
    uri = next((item.get("value") for item in container.get("env", ()) if item["name"] == STORAGE_URI), None)
    return uri if isinstance(uri, str) else None


def with_stored_path(container: Mapping[str, Any]) -> dict[str, Any]:
    """The container with the folder in that variable: where it finds what it has asked for."""
    if not stored_uri(container):
        return dict(container)
    env = [{**item, "value": MODELS_MOUNT} if item["name"] == STORAGE_URI else item for item in container["env"]]
    return {**container, "env": env}


def checked(source: Source) -> Source:
    """The source, once what can be told from its words alone is in order."""
    if len(source.uri) > URI_CHARACTERS:
        raise InvalidSpec(f"storageUri {one_line(source.uri, 100)!r} has more than {URI_CHARACTERS} characters")
    if source.claim == "":
        raise InvalidSpec(f"storageUri {source.uri!r} names no claim; write pvc://CLAIM or pvc://CLAIM/PATH")
    if source.claim and ".." in source.path.split("/"):
        raise InvalidSpec(f"storageUri {source.uri!r} has '..' in its path; name the folder of the claim itself")
    return source


def common_folder(sources: Sequence[Source]) -> str:
    """The folder above all destinations; the sources share one volume, which is mounted there."""
    folder = commonpath([source.destination for source in sources])
    if folder == "/":
        raise InvalidSpec(
            "the mountPaths of storageUris have no folder in common; put them under one, such as /mnt/models"
        )
    return folder


def mounts_claims(annotations: Mapping[str, str], config: StorageInitializerConfig) -> bool:
    """Whether claims are mounted where their copy would be; the annotation wins over the configuration."""
    mode = annotations.get(ANNOTATION_PVC_MODE)
    if mode not in (None, "copy", "direct"):
        raise InvalidSpec(f"annotation {ANNOTATION_PVC_MODE} is {mode!r}; write copy or direct")
    return mode == "direct" if mode else config.enable_direct_pvc_volume_mount
