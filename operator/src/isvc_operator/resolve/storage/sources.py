"""The URIs that a component requests, each with its destination folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from isvc_operator.errors import InvalidSpec
from isvc_operator.limits import URI_CHARACTERS
from isvc_operator.text import one_line
from storage_initializer.schemes import SCHEMES, foreign_service

IMAGE_SCHEME: Final = "oci"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
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
        return self.scheme not in SCHEMES or SCHEMES[self.scheme].is_remote

    @property
    def is_image(self) -> bool:
        """Whether the URI names an image, whose prefix may have the way to use it."""
        return self.scheme == IMAGE_SCHEME or self.scheme.startswith(f"{IMAGE_SCHEME}+")

    @property
    def foreign_service(self) -> str | None:
        """The service behind an https URI that only a ClusterStorageContainer can read."""
        return foreign_service(self.uri)

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


def checked(source: StorageSource) -> StorageSource:
    """Return the source if its URI is well-formed; raises InvalidSpec otherwise."""
    if len(source.uri) > URI_CHARACTERS:
        raise InvalidSpec(f"storageUri {one_line(source.uri, 100)!r} has more than {URI_CHARACTERS} characters")
    if source.claim == "":
        raise InvalidSpec(f"storageUri {source.shown} names no claim; write pvc://CLAIM or pvc://CLAIM/PATH")
    if source.claim and ".." in source.path.split("/"):
        raise InvalidSpec(f"storageUri {source.shown} has '..' in its path; name the folder of the claim itself")
    return source
