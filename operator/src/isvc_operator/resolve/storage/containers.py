"""Which ClusterStorageContainer downloads from a URI, if any. The storage-initializer itself needs none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from isvc_operator.api.names import CONFIG_MAP
from isvc_operator.api.storage_container import INIT_CONTAINER, ClusterStorageContainer
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.storage.sources import StorageSource
from storage_initializer.schemes import SCHEMES


def choose_container(
    sources: Sequence[StorageSource], named: str | None, containers: Iterable[ClusterStorageContainer]
) -> ClusterStorageContainer | None:
    """Return the container for all the sources; None stands for the storage-initializer as it is configured."""
    usable = sorted(filter(_is_usable, containers), key=lambda item: item.metadata.name)
    chosen = _named(named, usable) if named else _fitting(sources, usable)
    for source in sources:
        _check(source, chosen, usable)
    if chosen and len(sources) > 1 and not chosen.spec.supports_multi_model_download:
        raise InvalidSpec(
            f"ClusterStorageContainer {chosen.metadata.name} downloads one URI only; give one, "
            "or set its supportsMultiModelDownload if that is not true"
        )
    return chosen


def _named(name: str, usable: Sequence[ClusterStorageContainer]) -> ClusterStorageContainer:
    for item in usable:
        if item.metadata.name == name:
            return item
    raise InvalidSpec(
        f"ClusterStorageContainer {name!r} of spec.predictor.storageContainerName does not exist or is disabled; "
        f"available: {', '.join(item.metadata.name for item in usable) or 'nothing'}"
    )


def _fitting(
    sources: Sequence[StorageSource], usable: Sequence[ClusterStorageContainer]
) -> ClusterStorageContainer | None:
    """Return the first container that supports each source; it must be the same one for all of them."""
    found = [next((item for item in usable if _supports(item, source.uri)), None) for source in sources]
    if any(item is not found[0] for item in found):
        raise InvalidSpec(
            "the storageUris need several ClusterStorageContainers, and a pod has one; "
            "name one that supports them all in spec.predictor.storageContainerName"
        )
    return found[0]


def _check(
    source: StorageSource, chosen: ClusterStorageContainer | None, usable: Sequence[ClusterStorageContainer]
) -> None:
    if chosen and not _supports(chosen, source.uri):
        raise InvalidSpec(
            f"ClusterStorageContainer {chosen.metadata.name} does not download {source.shown}; "
            "correct its supportedUriFormats, or name another one"
        )
    if chosen:
        return
    formats = ", ".join(item.metadata.name for item in usable) or "there is none"
    if source.is_image:
        raise InvalidSpec(
            f"storageUri {source.shown} is an image, and the administrator has turned these off; set enableModelcar of "
            f"storageInitializer in the ConfigMap {CONFIG_MAP}, or copy the model to a bucket or a claim"
        )
    if source.scheme not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise InvalidSpec(
            f"storageUri {source.shown} has a scheme that is not supported; use one of {known}, "
            f"or install a ClusterStorageContainer for it ({formats})"
        )
    if service := source.foreign_service:
        raise InvalidSpec(
            f"storageUri {source.shown} is {service}, which the storage-initializer does not read; "
            f"install a ClusterStorageContainer for it ({formats}), or copy the model to a bucket or a claim"
        )


def _is_usable(item: ClusterStorageContainer) -> bool:
    return not item.disabled and item.spec.workload_type in (None, "", INIT_CONTAINER)


def _supports(item: ClusterStorageContainer, uri: str) -> bool:
    return any(
        uri.startswith(format_.prefix) if format_.prefix else _matches(format_.regex, uri)
        for format_ in item.spec.supported_uri_formats
    )


def _matches(pattern: str | None, uri: str) -> bool:
    """An invalid expression matches nothing: it must not stop services that another container serves."""
    try:
        return bool(pattern and re.search(pattern, uri))
    except re.error:
        return False
