"""The URIs that a component requests, and the service accounts and secrets that its storage refers to by name."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from isvc_operator.api.size import excess
from isvc_operator.errors import InvalidCredentials, InvalidSpec
from isvc_operator.limits import URI_CHARACTERS
from isvc_operator.manifests import Manifest, name_of
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


class ObjectReference(NamedTuple):
    """An object in the service's namespace."""

    kind: str
    name: str


Objects = Mapping[ObjectReference, Manifest | None]
"""The objects that were read; None for one that does not exist."""


def read_key(secret: Manifest, key: str) -> str | None:
    """Return the text under a key of a secret, or None if it has no such key."""
    stored = (secret.get("data") or {}).get(key)
    try:
        return None if stored is None else base64.b64decode(stored, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise InvalidCredentials(
            f"key {key} of secret {name_of(secret)} is not text; store it again as it was issued"
        ) from None


def json_object(text: str) -> dict[str, Any] | None:
    """Return the object, or None if the text is not a JSON object, is nested too deeply or has too many values."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and excess(value) is None else None
