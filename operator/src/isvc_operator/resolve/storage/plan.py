"""What a component's storage consists of: URIs, the secrets that it refers to, mounts, models that are images. Pure."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from posixpath import dirname
from typing import Any, Final, NamedTuple

from isvc_operator.api.names import MODELS_MOUNT
from isvc_operator.api.parsing import excess
from isvc_operator.api.storage_container import ClusterStorageContainer
from isvc_operator.config import OciMode, StorageInitializerConfig
from isvc_operator.errors import InvalidCredentials, InvalidSpec
from isvc_operator.limits import URI_CHARACTERS
from isvc_operator.manifests import Manifest, NamedItem, Volume, name_of
from isvc_operator.resolve.containers import merge_items
from isvc_operator.text import one_line
from storage_initializer.errors import UsageError
from storage_initializer.schemes import SCHEMES, problem_of
from storage_initializer.uri import LOCAL_SCHEME, parse_uri

IMAGE_SCHEME: Final = "oci"
_LOGIN = re.compile(
    r"^([^/:]*(?::/{0,2}|//))(?:[^/]*|[^/:@]*:[^@]*)@"
)  # a password may have a slash, though it must not


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

    @property
    def is_relative(self) -> bool:
        """Whether it is a path without a scheme and without a root, so that it depends on where it is read."""
        return self.scheme == LOCAL_SCHEME and "://" not in self.uri and not self.uri.startswith("/")

    @property
    def is_absolute(self) -> bool:
        """Whether it is a path from the root of the file system in which it is read."""
        return self.scheme == LOCAL_SCHEME and not self.is_relative

    def check(self) -> None:
        """Raise InvalidSpec for a URI that the storage-initializer would refuse; it supports the scheme."""
        uri = parse_uri(self.uri)
        if problem := problem_of(uri):
            raise InvalidSpec(f"storageUri {self.shown} {problem}")
        source, target = PurePosixPath(uri.path), PurePosixPath(self.destination)
        if self.scheme == "file" and (source.is_relative_to(target) or target.is_relative_to(source)):
            raise InvalidSpec(
                f"storageUri {self.shown} overlaps with {target}, where it is copied to; keep the two apart"
            )


def storage_source(uri: str, destination: str) -> StorageSource:
    """Return the source with this URI; raises InvalidSpec if it is not well-formed."""
    if len(uri) > URI_CHARACTERS:
        raise InvalidSpec(f"storageUri {one_line(uri, 100)!r} has more than {URI_CHARACTERS} characters")
    try:
        parsed = parse_uri(uri)
    except UsageError as error:
        raise InvalidSpec(f"storageUri: {error}") from error
    scheme = parsed.scheme
    remote = scheme not in SCHEMES or SCHEMES[scheme].is_remote  # an unknown one is
    is_image = scheme == IMAGE_SCHEME or scheme.startswith(f"{IMAGE_SCHEME}+")
    if scheme != "pvc":
        return StorageSource(uri, destination, scheme, remote, is_image)
    source = StorageSource(uri, destination, scheme, remote, claim=parsed.authority, path=parsed.path.strip("/"))
    source.check()
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


@dataclass(frozen=True)
class PodPreset:
    """What a container gets beside its own: its ``env`` and ``mounts``, and the ``volumes`` of its pod."""

    env: tuple[NamedItem, ...] = ()
    volumes: tuple[Volume, ...] = ()
    mounts: tuple[NamedItem, ...] = ()

    def __add__(self, other: PodPreset) -> PodPreset:
        """Combine both; of two items with the same name or mount path, the other's wins."""
        return PodPreset(
            tuple(merge_items(self.env, other.env, "name")),
            tuple(merge_items(self.volumes, other.volumes, "name")),
            tuple(merge_items(self.mounts, other.mounts, "mountPath")),
        )

    def value(self, name: str) -> str:
        """Return the value of a variable; empty if it is not set, or taken from a secret."""
        return next((item.get("value", "") for item in self.env if item["name"] == name), "")


def variable(name: str, value: str) -> NamedItem:
    return {"name": name, "value": value}


def secret_variable(name: str, secret: str, key: str) -> NamedItem:
    """Return an environment variable whose value the kubelet takes from a secret."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def read_only(volume: Volume, path: str) -> PodPreset:
    """Return a volume and its read-only mount."""
    return PodPreset(volumes=(volume,), mounts=({"name": volume["name"], "mountPath": path, "readOnly": True},))


_IMAGE_NAME = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
# As the kubelet reads it; what it does not accept would make a pod that never starts.
_REFERENCE = re.compile(
    rf"(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?/)?{_IMAGE_NAME}(?:/{_IMAGE_NAME})*(?::\w[\w.-]{{0,127}})?(?:@[\w+.-]+:[0-9a-fA-F]{{32,}})?",
    re.ASCII,
)


@dataclass(frozen=True)
class ModelImage:
    """An image whose folder ``/models`` is the model, and the path at which the server reads it.

    A modelcar is a container beside the server, into whose files a link leads; else the image is a volume.
    """

    reference: str
    destination: str
    modelcar: bool

    @property
    def folder(self) -> str:
        """The folder in which a modelcar puts its link."""
        return dirname(self.destination)


def model_images(sources: Sequence[StorageSource], config: StorageInitializerConfig) -> tuple[ModelImage, ...]:
    """Return the images among the sources, none if they are turned off; raises InvalidSpec for one without a use."""
    if not config.serves_images:
        return ()
    images = tuple(_image(source, config) for source in sources if source.is_image)
    for image in images:
        if image.modelcar and image.folder == "/":
            raise InvalidSpec(f"the mountPath {image.destination} is at the root; put the image's model below a folder")
    return images


def _image(source: StorageSource, config: StorageInitializerConfig) -> ModelImage:
    mode, reference = _mode(source, config), source.uri.partition("://")[2]
    if not _REFERENCE.fullmatch(reference):
        raise InvalidSpec(f"storageUri {source.shown} names no image; write oci://REGISTRY/IMAGE:TAG")
    return ModelImage(reference, source.destination, modelcar=mode is OciMode.MODELCAR)


def _mode(source: StorageSource, config: StorageInitializerConfig) -> OciMode:
    text = source.scheme.removeprefix(f"{IMAGE_SCHEME}+") if source.scheme != IMAGE_SCHEME else config.image_mode
    if text in (OciMode.MODELCAR, OciMode.NATIVE):
        return OciMode(text)
    raise InvalidSpec(
        f"storageUri {source.shown} asks for the mode {text}, which is not supported; write oci+modelcar:// for a "
        "container beside the server, or oci+native:// for an image volume (ociModelMode has the default)"
    )


@dataclass(frozen=True)
class StoragePlan:
    """What the pod's volumes contain and how it gets there.

    The storage-initializer copies ``copied`` into a volume of the pod that is mounted at ``folder``; ``mounted`` are
    claims that the server reads directly, and ``images`` are models that the pod uses as they are. A copy has to pass
    the check ``layout``, which depends on the server. ``preset`` is for the storage-initializer; ``container`` and
    ``resources`` are merged over its own. ``chosen`` is the ClusterStorageContainer that ``container`` comes from.
    ``packages`` is the folder of the node's cache in which the server keeps what archives require, if there is one.
    ``writable``: the server may write to the folder of its model. ``ignored``
    names annotations and fields of the ClusterStorageContainer that have no effect.
    """

    copied: tuple[StorageSource, ...]
    mounted: tuple[StorageSource, ...] = ()
    images: tuple[ModelImage, ...] = ()
    folder: str = MODELS_MOUNT
    layout: str = "none"
    preset: PodPreset = field(default_factory=PodPreset)
    container: Mapping[str, Any] = field(default_factory=dict)
    chosen: ClusterStorageContainer | None = None
    resources: Mapping[str, Any] = field(default_factory=dict)
    packages: str = ""
    writable: bool = False
    ignored: tuple[str, ...] = ()
