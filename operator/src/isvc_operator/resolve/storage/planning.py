"""Step: the plan of a component's storage, from its annotations, its request and the objects that were read for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from posixpath import commonpath
from typing import Any

from pydantic_core import SchemaValidator, ValidationError

from isvc_operator.api.base import field_names
from isvc_operator.api.core_fields import ContainerFields
from isvc_operator.api.core_shapes import RESOURCES
from isvc_operator.api.names import (
    ANNOTATION_ALLOW_PATTERNS,
    ANNOTATION_IGNORE_PATTERNS,
    ANNOTATION_PVC_MODE,
    ANNOTATION_READONLY,
    ANNOTATION_SHA256,
    ANNOTATION_STORAGE_RESOURCES,
    CONFIG_MAP,
    MODELS_MOUNT,
)
from isvc_operator.api.parsing import path_of
from isvc_operator.api.storage_container import INIT_CONTAINER, ClusterStorageContainer
from isvc_operator.config import OperatorConfig, StorageInitializerConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.ignored.walker import suggestion, unknown_fields
from isvc_operator.resolve.component import Component, Context
from isvc_operator.resolve.containers import check_amounts
from isvc_operator.resolve.requested import STORAGE_URI, StorageRequest, model_field, stored_uri
from isvc_operator.resolve.runtime import server_type_of
from isvc_operator.resolve.storage.credentials import STORED, download_preset, entry_uri, unread_parts
from isvc_operator.resolve.storage.plan import (
    ObjectReference,
    Objects,
    PodPreset,
    StoragePlan,
    StorageSource,
    json_object,
    model_images,
    storage_source,
    variable,
)
from isvc_operator.text import one_line
from storage_initializer.schemes import INSTEAD, NETWORK_SETTINGS, SCHEMES, SETTINGS, foreign_service

# The folder layout that a server expects, by its type; other servers have none. ``auto`` checks a folder that looks
# like TorchServe's, and nothing else, such as a bare model.onnx.
_LAYOUTS = {"torchserve": "torchserve", "mar": "auto"}
_ARCHIVES = "pytorch"  # the format of archives, which may require packages
# They are for the storage-initializer.
FOR_DOWNLOADS = (
    ANNOTATION_SHA256,
    ANNOTATION_ALLOW_PATTERNS,
    ANNOTATION_IGNORE_PATTERNS,
    ANNOTATION_STORAGE_RESOURCES,
)
_PATTERNS = {ANNOTATION_ALLOW_PATTERNS: "STORAGE_ALLOW_PATTERNS", ANNOTATION_IGNORE_PATTERNS: "STORAGE_IGNORE_PATTERNS"}
_VARIABLES = {ANNOTATION_SHA256: "STORAGE_SHA256", **_PATTERNS}
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


def model_storage(component: Component, context: Context) -> Component:
    """Return the component with the plan of its storage, which is None if an image may contain its model."""
    server = dict(component.server)
    if context.served is None and stored_uri(server):
        # The server reads the path of the downloaded model where the URI was.
        ours = {"name": STORAGE_URI, "value": MODELS_MOUNT}
        server["env"] = [{**item, **ours} if item["name"] == STORAGE_URI else item for item in server["env"]]
    plan = _plan(component.annotations, context)
    if plan and plan.copied:
        plan = replace(plan, ignored=(*plan.ignored, *_unread(plan, component, context)))
    return replace(component, server=server, storage=plan)


def _unread(plan: StoragePlan, component: Component, context: Context) -> Iterator[str]:
    """Yield what a download does not get, as with KServe: of the objects for it, and of the server's variables."""
    if any(source.remote for source in plan.copied):
        request = context.storage.requests[component.kind]
        yield from unread_parts(request, context.config.credentials, context.storage.objects)
    if "image" in plan.container:  # nobody knows what it reads
        return
    env = context.served.model.env or () if context.served else component.server.get("env", ())
    names = [item["name"] for item in env if item["name"] != STORAGE_URI]
    own = {item["name"] for item in (*plan.preset.env, *plan.container.get("env", ()))}
    for pattern in _settings(plan.copied):
        if not any(re.fullmatch(pattern, name) for name in own):
            for name in filter(re.compile(pattern).fullmatch, names):
                yield f"{_place(name, context)} (the download of the model does not get it; {_instead(name)})"


def _place(name: str, context: Context) -> str:
    """Return where the server's variable is."""
    if context.served:
        return f"{model_field(context.service.spec.predictor)}.env: {name}"
    return f"variable {name} of {context.requested.field}"


def _settings(sources: Sequence[StorageSource]) -> Iterator[str]:
    """Yield the expressions for the variables that downloads of the sources read."""
    yield SETTINGS
    if any(source.remote for source in sources):
        yield NETWORK_SETTINGS
    yield from dict.fromkeys(SCHEMES[source.scheme].settings for source in sources if source.scheme in SCHEMES)


def _instead(name: str) -> str:
    annotation = next((annotation for annotation, variable in _VARIABLES.items() if variable == name), None)
    if annotation:
        return f"write the annotation {annotation}"
    if name in STORED:
        return "store it in a Secret that the service account lists"
    return "set it in a ClusterStorageContainer"


def _plan(annotations: Mapping[str, str], context: Context) -> StoragePlan | None:
    request, config = context.storage.requests[context.requested.kind], context.config
    sources = _sources(request, config, context.storage.objects)
    if not sources:
        return None
    directly = _mounts_claims(annotations, config.storage_initializer)
    mounted = tuple(source for source in sources if directly and source.claim)
    images = model_images(sources, config.storage_initializer) if any(source.is_image for source in sources) else ()
    folders = [*(source.destination for source in mounted), *(image.destination for image in images)]
    if len(set(folders)) < len(folders):
        raise InvalidSpec("two claims or images of storageUris have the same mountPath; give each one of its own")
    copied = tuple(source for source in sources if source not in mounted and not (images and source.is_image))
    container = choose_container(copied, request.container, context.storage.containers) if copied else None
    writable = annotations.get(ANNOTATION_READONLY, "true").lower() == "false"
    ignored = []
    if container:
        where = f"{container.kind} {container.metadata.name}"
        ignored += [f"{where}: {field}" for field in unknown_fields(container)]
    if not copied:
        why = "nothing is downloaded: the server reads the model where it is"
        ignored += [f"annotation {name} ({why})" for name in FOR_DOWNLOADS if name in annotations]
    if annotations.get(ANNOTATION_PVC_MODE) == "direct" and not mounted:
        ignored.append(f"annotation {ANNOTATION_PVC_MODE}: direct (no source is a claim)")
    if images and writable:
        ignored.append(f"annotation {ANNOTATION_READONLY}: false (the files of an image cannot be changed)")
    if not copied:
        return StoragePlan(copied=(), mounted=mounted, images=images, writable=writable, ignored=tuple(ignored))
    # Each of several sources contains only a part of the layout.
    server_type = server_type_of(context.served.chosen.runtime) if context.served and len(sources) == 1 else None
    return StoragePlan(
        copied=copied,
        mounted=mounted,
        images=images,
        folder=_common_folder(copied),
        layout=_LAYOUTS.get(server_type or "", "none"),
        resources=_resources(annotations) if ANNOTATION_STORAGE_RESOURCES in annotations else {},
        preset=_preset(request, copied, annotations, context),
        container=_fields_of(container) if container else {},
        chosen=container,
        packages=_packages(request, copied, context) if context.config.storage_initializer.cache else "",
        writable=writable,
        ignored=tuple(ignored),
    )


def _fields_of(container: ClusterStorageContainer) -> dict[str, Any]:
    """Return the container's fields without unknown ones: the API server would refuse the Deployment."""
    known = field_names(ContainerFields)
    fields = {name: value for name, value in container.spec.container.items() if name in known}
    check_amounts(
        fields.get("resources") or {}, f"{container.kind} {container.metadata.name}: spec.container.resources"
    )
    return fields


def _sources(request: StorageRequest, config: OperatorConfig, objects: Objects) -> tuple[StorageSource, ...]:
    if request.sources or request.spec is None:
        return request.sources
    if request.spec.path is None:
        raise InvalidSpec("spec.predictor.model.storage has no path; give one, or a storageUri beside it")
    name = request.spec_secret(config.credentials, objects)
    uri = entry_uri(request.spec, name, objects.get(ObjectReference("Secret", name)))
    return (storage_source(uri, MODELS_MOUNT),)


def _preset(
    request: StorageRequest, copied: Sequence[StorageSource], annotations: Mapping[str, str], context: Context
) -> PodPreset:
    """Return what annotations say of a download: the digests of its files, and which files it is of.

    For one over the network also credentials, certificates and the cache.
    """
    sums = _json_object(annotations, ANNOTATION_SHA256) if ANNOTATION_SHA256 in annotations else {}
    for path, digest in sums.items():
        if not _SHA256.fullmatch(str(digest)):
            raise InvalidSpec(f"annotation {ANNOTATION_SHA256} has {digest!r} for {path}; write 64 hexadecimal digits")
    env = [variable(_VARIABLES[ANNOTATION_SHA256], json.dumps(sums, sort_keys=True))] if sums else []
    env += [variable(_PATTERNS[name], annotations[name]) for name in _PATTERNS if annotations.get(name)]
    annotated = PodPreset(env=tuple(env))
    if not any(source.remote for source in copied):
        return annotated
    return annotated + download_preset(request, context.config, context.storage.objects)


def _packages(request: StorageRequest, copied: Sequence[StorageSource], context: Context) -> str:
    """Return a folder of the service account: what its pods write there is run by other pods of it.

    Empty for pods without a download, and for servers without archives.
    """
    served = context.served
    if served is None or not any(source.remote for source in copied):
        return ""
    if server_type_of(served.chosen.runtime) not in _LAYOUTS or served.model.model_format.name != _ARCHIVES:
        return ""
    return f"packages/{context.service.metadata.namespace}/{request.account.name}"


def _resources(annotations: Mapping[str, str]) -> Mapping[str, Any]:
    name = ANNOTATION_STORAGE_RESOURCES
    resources = _json_object(annotations, name)
    try:
        _RESOURCES.validate_python(resources)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        raise InvalidSpec(one_line(f"annotation {name}: {path_of(wrong['loc'])}: {wrong['msg']}")) from error
    check_amounts(resources, f"annotation {name}")
    return resources


def _json_object(annotations: Mapping[str, str], name: str) -> Mapping[str, Any]:
    value = json_object(annotations[name])
    if value is None:
        raise InvalidSpec(f"annotation {name} is not a JSON object; write for example {_EXAMPLES[name]}")
    return value


def _common_folder(sources: Sequence[StorageSource]) -> str:
    """Return the folder above all destinations, where the volume that the sources share is mounted."""
    folder = commonpath([source.destination for source in sources])
    if folder == "/":
        raise InvalidSpec(
            "the mountPaths of storageUris have no folder in common; put them under one, such as /mnt/models"
        )
    return folder


def _mounts_claims(annotations: Mapping[str, str], config: StorageInitializerConfig) -> bool:
    """Whether claims are mounted instead of copied; the annotation wins over the configuration."""
    mode = annotations.get(ANNOTATION_PVC_MODE)
    if mode not in (None, "copy", "direct"):
        raise InvalidSpec(f"annotation {ANNOTATION_PVC_MODE} is {mode!r}; write copy or direct")
    return mode == "direct" if mode else config.enable_direct_pvc_volume_mount


_RESOURCES = SchemaValidator(RESOURCES)
_EXAMPLES = {
    ANNOTATION_SHA256: '{"model-store/bert.mar": "<sha256>"}',
    ANNOTATION_STORAGE_RESOURCES: '{"limits": {"memory": "2Gi"}}',
}


def choose_container(
    sources: Sequence[StorageSource], named: str | None, containers: Iterable[ClusterStorageContainer]
) -> ClusterStorageContainer | None:
    """Return the container for all the sources; None stands for the storage-initializer as it is configured."""
    by_name = sorted(containers, key=lambda item: item.metadata.name)
    usable = [it for it in by_name if not it.disabled and it.spec.workload_type in (None, "", INIT_CONTAINER)]
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
    known = [item.metadata.name for item in usable]
    raise InvalidSpec(
        f"ClusterStorageContainer {name!r} of spec.predictor.storageContainerName does not exist or is disabled"
        f"{suggestion(name, known)}; available: {', '.join(known) or 'nothing'}"
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
        least = 0.5 if len(source.scheme) == 2 else 0.6  # of two letters, one may be mistyped
        meant = "" if source.scheme in INSTEAD else suggestion(source.scheme, SCHEMES, least=least)
        raise InvalidSpec(
            f"storageUri {source.shown} has a scheme that is not supported{meant}; use one of {known}, "
            f"or install a ClusterStorageContainer for it ({formats})"
        )
    if service := foreign_service(source.uri):
        raise InvalidSpec(
            f"storageUri {source.shown} is {service}, which the storage-initializer does not read; "
            f"install a ClusterStorageContainer for it ({formats}), or copy the model to a bucket or a claim"
        )
    source.check()


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
