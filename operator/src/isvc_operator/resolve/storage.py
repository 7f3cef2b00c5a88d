"""How the model gets to the server: what is copied into the pod, what is mounted as it is, and in whose name."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from isvc_operator.api.names import (
    ANNOTATION_SHA256,
    ANNOTATION_STORAGE_RESOURCES,
    CA_BUNDLE_CONFIG_MAP,
    CACHE_MOUNT,
    MODELS_MOUNT,
)
from isvc_operator.api.storage_container import ClusterStorageContainer
from isvc_operator.config import CacheConfig, OperatorConfig, StorageInitializerConfig
from isvc_operator.errors import InvalidCredentials, InvalidSpec
from isvc_operator.resolve import storage_spec
from isvc_operator.resolve.credentials import credentials_of
from isvc_operator.resolve.json_text import json_object
from isvc_operator.resolve.objects import Objects, Reference
from isvc_operator.resolve.provision import Provision, read_only, variable
from isvc_operator.resolve.sources import Source, checked, common_folder, mounts_claims
from isvc_operator.resolve.storage_container import choose_container
from isvc_operator.resolve.storage_request import StorageRequest

# The layout that a server reads, by its type; others read whatever there is. ``auto`` checks a folder that looks like
# TorchServe's and leaves any other one, such as a bare model.onnx, alone.
_LAYOUTS = {"torchserve": "torchserve", "mar": "auto"}
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True)
class StorageContext:
    """What the plan depends on beside the service: containers that download, and the objects that it refers to."""

    containers: tuple[ClusterStorageContainer, ...] = ()
    objects: Objects = field(default_factory=dict)


@dataclass(frozen=True)
class StoragePlan:
    """What is brought where.

    ``copied`` is brought by the storage-initializer into a volume of the pod's own, mounted at ``folder``; ``mounted``
    are claims that the server reads itself. ``layout`` is the check that a copy has to pass: that of the server which
    will read it. ``provision`` is for the initializer, whose container ``container`` and ``resources`` change.
    """

    copied: tuple[Source, ...]
    mounted: tuple[Source, ...] = ()
    folder: str = MODELS_MOUNT
    layout: str = "none"
    provision: Provision = field(default_factory=Provision)
    container: Mapping[str, Any] = field(default_factory=dict)
    resources: Mapping[str, Any] = field(default_factory=dict)

    @property
    def claims(self) -> tuple[str, ...]:
        """Every claim once, in the order of the sources."""
        return tuple(dict.fromkeys(source.claim for source in (*self.copied, *self.mounted) if source.claim))


def plan_storage(
    request: StorageRequest,
    annotations: Mapping[str, str],
    config: OperatorConfig,
    context: StorageContext,
    server_type: str | None = None,
) -> StoragePlan | None:
    """The plan for what is asked; None where that is nothing, as an image may hold its own model."""
    sources = _sources(request, config, context.objects)
    if not sources:
        return None
    directly = mounts_claims(annotations, config.storage_initializer)
    mounted = _apart([source for source in sources if source.claim and directly])
    copied = tuple(source for source in sources if source not in mounted)
    if not copied:
        return StoragePlan(copied=(), mounted=mounted)
    container = choose_container(copied, request.container, context.containers)
    return StoragePlan(
        copied=copied,
        mounted=mounted,
        folder=common_folder(copied),
        # Where several sources make up a folder, each of them holds a part of the layout only.
        layout=_LAYOUTS.get(server_type or "", "none") if len(sources) == 1 else "none",
        provision=_provision(request, copied, annotations, config, context.objects),
        container=container.spec.container if container else {},
        resources=_json_object(annotations, ANNOTATION_STORAGE_RESOURCES),
    )


def _sources(request: StorageRequest, config: OperatorConfig, objects: Objects) -> tuple[Source, ...]:
    if request.sources or request.spec is None:
        return request.sources
    if request.spec.path is None:
        raise InvalidSpec("spec.predictor.model.storage has no path; give one, or a storageUri beside it")
    name = request.spec_secret(config.credentials, objects)
    uri = storage_spec.uri_of(request.spec, name, objects.get(Reference("Secret", name)))
    return (checked(Source(uri, MODELS_MOUNT)),)


def _apart(mounted: Sequence[Source]) -> tuple[Source, ...]:
    places = [source.destination for source in mounted]
    if len(set(places)) < len(places):
        raise InvalidSpec("two claims of storageUris have the same mountPath; give each one of its own")
    return tuple(mounted)


def _provision(
    request: StorageRequest,
    copied: Sequence[Source],
    annotations: Mapping[str, str],
    config: OperatorConfig,
    objects: Objects,
) -> Provision:
    """Credentials, certificates and the cache are for what comes over the network."""
    provision = _checksums(annotations)
    if any(source.remote for source in copied):
        credentials = _credentials(request, config, objects)
        provision += credentials + _ca_bundle(credentials, config.storage_initializer)
        provision += _cache(config.storage_initializer.cache)
    return provision


def _credentials(request: StorageRequest, config: OperatorConfig, objects: Objects) -> Provision:
    """Those of the storage secret, where the model names one, else those of the service account."""
    if request.spec is not None:
        name = request.spec_secret(config.credentials, objects)
        return storage_spec.provision_of(request.spec, name, objects.get(Reference("Secret", name)))
    secrets = []
    for name in request.account_secrets(config.credentials, objects):
        if (secret := objects.get(Reference("Secret", name))) is None:
            raise InvalidCredentials(
                f"secret {name}, which service account {request.account.name} or an annotation names, does not exist; "
                "create it, or take its name out there"
            )
        secrets.append(secret)
    return credentials_of(objects.get(request.account), secrets, config.credentials)


def _ca_bundle(credentials: Provision, config: StorageInitializerConfig) -> Provision:
    """Certificates to trust: of the config map that the credentials name, else of the administrator's."""
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


def _json_object(annotations: Mapping[str, str], name: str) -> Mapping[str, Any]:
    value = json_object(annotations.get(name, "{}"))
    if value is None:
        raise InvalidSpec(f"annotation {name} is not a JSON object; write for example {_EXAMPLES[name]}")
    return value


_EXAMPLES = {
    ANNOTATION_SHA256: '{"model-store/bert.mar": "<sha256>"}',
    ANNOTATION_STORAGE_RESOURCES: '{"limits": {"memory": "2Gi"}}',
}
