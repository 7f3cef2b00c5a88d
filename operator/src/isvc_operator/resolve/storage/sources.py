"""The URIs that a component requests, and the service accounts and secrets that its storage refers to by name."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from isvc_operator.api.parsing import excess
from isvc_operator.errors import InvalidCredentials, InvalidSpec
from isvc_operator.limits import URI_CHARACTERS
from isvc_operator.manifests import Manifest, name_of
from isvc_operator.text import one_line
from storage_initializer.schemes import SCHEMES

IMAGE_SCHEME: Final = "oci"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_LOGIN = re.compile(r"^([^/]*://)[^/]*@")


@dataclass(frozen=True)
class StorageSource:
    """One URI and its destination folder. A path in a URI is taken literally.

    ``scheme`` is in lower case, ``file`` for a plain path. ``remote``: it is read over the network. ``is_image``: it
    names an image; its prefix may have the way to use it. ``claim`` and ``path`` are the PersistentVolumeClaim of a
    ``pvc://`` URI and the path in it.
    """

    uri: str
    destination: str
    scheme: str
    remote: bool
    is_image: bool = False
    claim: str | None = None
    path: str = ""

    @property
    def shown(self) -> str:
        """The URI for messages, without what may be a secret: a password, or a signature in the query."""
        return repr(_LOGIN.sub(r"\1…@", self.uri.partition("?")[0]))


def storage_source(uri: str, destination: str) -> StorageSource:
    """Return the source with this URI; raises InvalidSpec if it is not well-formed."""
    if len(uri) > URI_CHARACTERS:
        raise InvalidSpec(f"storageUri {one_line(uri, 100)!r} has more than {URI_CHARACTERS} characters")
    match = _SCHEME.match(uri)
    scheme = match[1].lower() if match else "file"
    remote = scheme not in SCHEMES or SCHEMES[scheme].is_remote  # an unknown one is
    is_image = scheme == IMAGE_SCHEME or scheme.startswith(f"{IMAGE_SCHEME}+")
    if scheme != "pvc":
        return StorageSource(uri, destination, scheme, remote, is_image)
    claim, _, path = uri.partition("://")[2].partition("/")
    source = StorageSource(uri, destination, scheme, remote, claim=claim, path=path.strip("/"))
    if not claim:
        raise InvalidSpec(f"storageUri {source.shown} names no claim; write pvc://CLAIM or pvc://CLAIM/PATH")
    if ".." in source.path.split("/"):
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
