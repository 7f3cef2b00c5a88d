"""Models in container images: ``oci://IMAGE``, used by the pod without a copy (docs/storage.md). Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from posixpath import dirname

from isvc_operator.config import OciMode, StorageInitializerConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.storage.sources import StorageSource

_SCHEME = "oci"
_PREFIX = "oci+"
_NAME = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
# As the kubelet reads it; what it does not accept would make a pod that never starts.
_REFERENCE = re.compile(
    rf"(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?/)?{_NAME}(?:/{_NAME})*(?::\w[\w.-]{{0,127}})?(?:@[\w+.-]+:[0-9a-fA-F]{{32,}})?",
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


def is_image(source: StorageSource) -> bool:
    """Whether the URI names an image."""
    return source.scheme == _SCHEME or source.scheme.startswith(_PREFIX)


def model_images(sources: Sequence[StorageSource], config: StorageInitializerConfig) -> tuple[ModelImage, ...]:
    """Return the images among the sources, none if they are turned off; raises InvalidSpec for one without a use."""
    if not config.serves_images:
        return ()
    images = tuple(_image(source, config) for source in sources if is_image(source))
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
    text = source.scheme.removeprefix(_PREFIX) if source.scheme != _SCHEME else config.image_mode
    if text in (OciMode.MODELCAR, OciMode.NATIVE):
        return OciMode(text)
    raise InvalidSpec(
        f"storageUri {source.shown} asks for the mode {text}, which is not supported; write oci+modelcar:// for a "
        "container beside the server, or oci+native:// for an image volume (ociModelMode has the default)"
    )
