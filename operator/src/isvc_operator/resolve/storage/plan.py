"""The plan of a component's storage: what is copied into the pod, what is mounted, and with which credentials."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import SchemaValidator, ValidationError

from isvc_operator.api.base import field_names
from isvc_operator.api.core_fields import ContainerFields
from isvc_operator.api.core_shapes import RESOURCES
from isvc_operator.api.errors import path_of
from isvc_operator.api.names import (
    ANNOTATION_ALLOW_PATTERNS,
    ANNOTATION_IGNORE_PATTERNS,
    ANNOTATION_READONLY,
    ANNOTATION_SHA256,
    ANNOTATION_STORAGE_RESOURCES,
    CA_BUNDLE_CONFIG_MAP,
    CACHE_MOUNT,
    MODELS_MOUNT,
)
from isvc_operator.api.storage_container import ClusterStorageContainer
from isvc_operator.api.unknown_fields import unknown_fields
from isvc_operator.config import CacheConfig, OperatorConfig, StorageInitializerConfig
from isvc_operator.errors import InvalidCredentials, InvalidSpec
from isvc_operator.resolve.storage import secret_entry
from isvc_operator.resolve.storage.containers import choose_container
from isvc_operator.resolve.storage.credentials import credentials_of
from isvc_operator.resolve.storage.images import ModelImage, is_image, model_images
from isvc_operator.resolve.storage.json_text import json_object
from isvc_operator.resolve.storage.objects import ObjectReference, Objects
from isvc_operator.resolve.storage.provision import Provision, read_only, variable
from isvc_operator.resolve.storage.requests import StorageRequest, StorageRequests
from isvc_operator.resolve.storage.sources import StorageSource, checked, common_folder, mounts_claims
from isvc_operator.text import one_line

# The folder layout that a server expects, by its type; other servers have none. ``auto`` checks a folder that looks
# like TorchServe's, and nothing else, such as a bare model.onnx.
_LAYOUTS = {"torchserve": "torchserve", "mar": "auto"}
# They are for the storage-initializer.
_FOR_DOWNLOADS = (
    ANNOTATION_SHA256,
    ANNOTATION_ALLOW_PATTERNS,
    ANNOTATION_IGNORE_PATTERNS,
    ANNOTATION_STORAGE_RESOURCES,
)
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True)
class StorageContext:
    """What the plans of a service depend on: its requests, the cluster's storage containers, and the objects read."""

    requests: StorageRequests
    containers: tuple[ClusterStorageContainer, ...] = ()
    objects: Objects = field(default_factory=dict)


@dataclass(frozen=True)
class StoragePlan:
    """What the pod's volumes contain and how it gets there.

    The storage-initializer copies ``copied`` into a volume of the pod that is mounted at ``folder``; ``mounted`` are
    claims that the server reads directly, and ``images`` are models that the pod uses as they are. A copy has to pass
    the check ``layout``, which depends on the server. ``provision`` is for the storage-initializer; ``container`` and
    ``resources`` are merged over its own. ``ignored`` names annotations and fields of the ClusterStorageContainer that
    have no effect.
    """

    copied: tuple[StorageSource, ...]
    mounted: tuple[StorageSource, ...] = ()
    images: tuple[ModelImage, ...] = ()
    folder: str = MODELS_MOUNT
    layout: str = "none"
    provision: Provision = field(default_factory=Provision)
    container: Mapping[str, Any] = field(default_factory=dict)
    resources: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    @property
    def claims(self) -> tuple[str, ...]:
        """Each claim once, in the order of the sources."""
        return tuple(dict.fromkeys(source.claim for source in (*self.copied, *self.mounted) if source.claim))


def plan_storage(
    component: str,
    annotations: Mapping[str, str],
    *,
    config: OperatorConfig,
    context: StorageContext,
    server_type: str | None = None,
) -> StoragePlan | None:
    """Return the plan for a kind of component; None if it requests nothing: an image may contain its model."""
    request = context.requests[component]
    sources = _sources(request, config, context.objects)
    if not sources:
        return None
    directly = mounts_claims(annotations, config.storage_initializer)
    mounted = tuple(source for source in sources if source.claim and directly)
    images = model_images(sources, config.storage_initializer)
    _check_distinct([*(source.destination for source in mounted), *(image.destination for image in images)])
    copied = tuple(source for source in sources if source not in mounted and not (images and is_image(source)))
    ignored = tuple(_without_effect(annotations, copied, images))
    if not copied:
        return StoragePlan(copied=(), mounted=mounted, images=images, ignored=ignored)
    container = choose_container(copied, request.container, context.containers)
    return StoragePlan(
        copied=copied,
        mounted=mounted,
        images=images,
        folder=common_folder(copied),
        # Each of several sources contains only a part of the layout.
        layout=_LAYOUTS.get(server_type or "", "none") if len(sources) == 1 else "none",
        provision=_checksums(annotations)
        + _patterns(annotations)
        + _network(request, copied, config=config, objects=context.objects),
        container=_fields_of(container) if container else {},
        resources=_resources(annotations),
        ignored=(*ignored, *(_unknown_fields(container) if container else ())),
    )


def _without_effect(
    annotations: Mapping[str, str], copied: Sequence[StorageSource], images: Sequence[ModelImage]
) -> Iterator[str]:
    """Yield annotations for a download where there is none, and the one for a writable model that is an image."""
    for name in _FOR_DOWNLOADS if not copied else ():
        if name in annotations:
            yield f"annotation {name} (nothing is downloaded: the server reads the model where it is)"
    if images and annotations.get(ANNOTATION_READONLY, "true").lower() == "false":
        yield f"annotation {ANNOTATION_READONLY}: false (the files of an image cannot be changed)"


def _fields_of(container: ClusterStorageContainer) -> dict[str, Any]:
    """Return the container's fields without unknown ones: the API server would refuse the Deployment."""
    known = field_names(ContainerFields)
    return {name: value for name, value in container.spec.container.items() if name in known}


def _unknown_fields(container: ClusterStorageContainer) -> Iterator[str]:
    return (f"{container.kind} {container.metadata.name}: {field}" for field in unknown_fields(container))


def _sources(request: StorageRequest, config: OperatorConfig, objects: Objects) -> tuple[StorageSource, ...]:
    if request.sources or request.spec is None:
        return request.sources
    if request.spec.path is None:
        raise InvalidSpec("spec.predictor.model.storage has no path; give one, or a storageUri beside it")
    name = request.spec_secret(config.credentials, objects)
    uri = secret_entry.uri_of(request.spec, name, objects.get(ObjectReference("Secret", name)))
    return (checked(StorageSource(uri, MODELS_MOUNT)),)


def _check_distinct(mount_paths: Sequence[str]) -> None:
    if len(set(mount_paths)) < len(mount_paths):
        raise InvalidSpec("two claims or images of storageUris have the same mountPath; give each one of its own")


def _network(
    request: StorageRequest, copied: Sequence[StorageSource], *, config: OperatorConfig, objects: Objects
) -> Provision:
    """Return credentials, certificates and the cache, which only downloads over the network need."""
    if not any(source.remote for source in copied):
        return Provision()
    credentials = _credentials(request, config, objects)
    certificates = _ca_bundle(credentials, config.storage_initializer)
    return credentials + certificates + _cache(config.storage_initializer.cache)


def _credentials(request: StorageRequest, config: OperatorConfig, objects: Objects) -> Provision:
    """Return those of the storage secret if the model names one, or else those of the service account."""
    if request.spec is not None:
        name = request.spec_secret(config.credentials, objects)
        return secret_entry.provision_of(request.spec, name, objects.get(ObjectReference("Secret", name)))
    secrets = []
    for name in request.account_secrets(config.credentials, objects):
        if (secret := objects.get(ObjectReference("Secret", name))) is None:
            raise InvalidCredentials(
                f"secret {name}, which service account {request.account.name} or an annotation names, does not exist; "
                "create it, or remove its name there"
            )
        secrets.append(secret)
    return credentials_of(objects.get(request.account), secrets, config.credentials)


def _ca_bundle(credentials: Provision, config: StorageInitializerConfig) -> Provision:
    """Return the certificates to trust: of the ConfigMap that the credentials name, or else the administrator's."""
    own = credentials.value("AWS_CA_BUNDLE_CONFIGMAP")
    if not own and not config.ca_bundle_config_map_name:
        return Provision()
    name = own or CA_BUNDLE_CONFIG_MAP
    folder = posixpath.dirname(credentials.value("AWS_CA_BUNDLE")) or config.ca_bundle_volume_mount_path
    env = (variable("CA_BUNDLE_CONFIGMAP_NAME", name), variable("CA_BUNDLE_VOLUME_MOUNT_POINT", folder))
    return Provision(env=env) + read_only({"name": "cabundle-cert", "configMap": {"name": name}}, folder)


def _cache(config: CacheConfig | None) -> Provision:
    if config is None:
        return Provision()
    place = (
        {"persistentVolumeClaim": {"claimName": config.claim_name}}
        if config.claim_name
        else {"hostPath": {"path": config.host_path, "type": "DirectoryOrCreate"}}
    )
    return Provision(
        env=(variable("STORAGE_CACHE", CACHE_MOUNT), variable("STORAGE_CACHE_SIZE", str(config.max_bytes))),
        volumes=({"name": "storage-cache", **place},),
        mounts=({"name": "storage-cache", "mountPath": CACHE_MOUNT},),
    )


def _checksums(annotations: Mapping[str, str]) -> Provision:
    sums = _json_object(annotations, ANNOTATION_SHA256)
    for path, digest in sums.items():
        if not _SHA256.fullmatch(str(digest)):
            raise InvalidSpec(f"annotation {ANNOTATION_SHA256} has {digest!r} for {path}; write 64 hexadecimal digits")
    return Provision(env=(variable("STORAGE_SHA256", json.dumps(sums, sort_keys=True)),)) if sums else Provision()


def _patterns(annotations: Mapping[str, str]) -> Provision:
    names = {ANNOTATION_ALLOW_PATTERNS: "STORAGE_ALLOW_PATTERNS", ANNOTATION_IGNORE_PATTERNS: "STORAGE_IGNORE_PATTERNS"}
    return Provision(env=tuple(variable(names[name], annotations[name]) for name in names if annotations.get(name)))


def _resources(annotations: Mapping[str, str]) -> Mapping[str, Any]:
    name = ANNOTATION_STORAGE_RESOURCES
    resources = _json_object(annotations, name)
    try:
        _RESOURCES.validate_python(resources)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        raise InvalidSpec(one_line(f"annotation {name}: {path_of(wrong['loc'])}: {wrong['msg']}")) from error
    return resources


def _json_object(annotations: Mapping[str, str], name: str) -> Mapping[str, Any]:
    value = json_object(annotations.get(name, "{}"))
    if value is None:
        raise InvalidSpec(f"annotation {name} is not a JSON object; write for example {_EXAMPLES[name]}")
    return value


_RESOURCES = SchemaValidator(RESOURCES)
_EXAMPLES = {
    ANNOTATION_SHA256: '{"model-store/bert.mar": "<sha256>"}',
    ANNOTATION_STORAGE_RESOURCES: '{"limits": {"memory": "2Gi"}}',
}
