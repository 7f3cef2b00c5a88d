"""What a service requests: its components and their names, its model, which container serves, what is downloaded.

The defaults of KServe's webhook are applied here, when the object is read. They are not written back, so that a client
that merges `pytorch:` into a stored `model:` finds its object unchanged.

Some objects that storage refers to are known only after another object has been read: a service account lists its
secrets. ``references`` returns the names that are known so far; its caller (``kube``, or ``local`` with the objects of
the files) reads those objects and calls again until there is no new name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePosixPath
from typing import Any, Final

from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.components import (
    FRAMEWORKS,
    ExplainerSpec,
    ModelFormat,
    ModelSpec,
    PredictorExtensionSpec,
    PredictorSpec,
    StorageSpec,
    StorageUri,
    TransformerSpec,
)
from isvc_operator.api.core_shapes import without_nulls
from isvc_operator.api.inference_service import InferenceService, InferenceServiceSpec
from isvc_operator.api.names import (
    ANNOTATION_AUTOSCALER,
    ANNOTATION_SETTINGS,
    ANNOTATION_STOP,
    CONTAINER_SERVER,
    EXPLAINER,
    MODELS_MOUNT,
    PREDICTOR,
    TRANSFORMER,
)
from isvc_operator.config import CredentialsConfig
from isvc_operator.errors import InvalidCredentials, InvalidSpec
from isvc_operator.limits import SECRETS
from isvc_operator.manifests import Container, annotations_of
from isvc_operator.resolve.storage.plan import ObjectReference, Objects, StorageSource, storage_source

STORAGE_URI: Final = "STORAGE_URI"
ComponentSpec = PredictorSpec | TransformerSpec | ExplainerSpec


class AutoscalerClass(Enum):
    """The values of the annotation ``autoscalerClass``."""

    HPA = "hpa"
    KEDA = "keda"
    EXTERNAL = "external"
    NONE = "none"


@dataclass(frozen=True)
class RequestedComponent:
    """A component of the spec; ``name`` is that of its Deployment and its Service, ``field`` its place in the spec."""

    kind: str
    name: str
    spec: ComponentSpec
    field: str


def asks_for_keda(service: InferenceService) -> bool:
    annotations = (component.annotations or {} for _, component in specified_components(service.spec))
    given = ({**service.metadata.annotations, **own}.get(ANNOTATION_AUTOSCALER) for own in annotations)
    return AutoscalerClass.KEDA.value in given


def is_stopped(service: InferenceService) -> bool:
    """Whether the user has paused the service: its children are deleted, its definition stays."""
    return service.metadata.annotations.get(ANNOTATION_STOP, "").lower() == "true"


def components_of(service: InferenceService) -> tuple[RequestedComponent, ...]:
    """Return the components that get a Deployment, the predictor first.

    An explainer without containers is one of the toolkit ``art``, which is not supported.
    """
    name, predictor = service.metadata.name, service.spec.predictor.name
    return tuple(
        RequestedComponent(kind, component_name(name, kind, predictor), spec, f"spec.{kind}")
        for kind, spec in specified_components(service.spec)
        if kind != EXPLAINER or bool(spec.containers)
    )


def specified_components(spec: InferenceServiceSpec) -> Iterator[tuple[str, ComponentSpec]]:
    """Yield the kind and the spec of each component in the spec, also of one that gets no Deployment."""
    yield PREDICTOR, spec.predictor
    if spec.transformer:
        yield TRANSFORMER, spec.transformer
    if spec.explainer:
        yield EXPLAINER, spec.explainer


def component_name(service: str, kind: str, predictor: str | None) -> str:
    """Return the name of a component's Deployment and Service (docs/kserve.md); ``predictor`` is ``predictor.name``."""
    return f"{service}-{predictor}-{kind}" if predictor and kind == PREDICTOR else f"{service}-{kind}"


def component_names(service: str, spec: Any) -> dict[str, str]:
    """Return the names of the components' Deployments and Services by kind, of a spec that may be invalid."""
    predictor = _field(_field(spec, "predictor"), "name")
    kinds = [PREDICTOR]
    if isinstance(_field(spec, "transformer"), Mapping):
        kinds.append(TRANSFORMER)
    if _field(_field(spec, "explainer"), "containers"):
        kinds.append(EXPLAINER)
    named = predictor if isinstance(predictor, str) else None
    return {kind: component_name(service, kind, named) for kind in kinds}


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def server_first(containers: Sequence[Container], field: str) -> list[dict[str, Any]]:
    """Return the containers with the server first and under KServe's name.

    The server is the container with that name, or else the only one; of a transformer or an explainer, the first one.
    """
    if not containers:
        raise InvalidSpec(f"{field} has no containers; give it one with an image")
    names = [item.get("name") for item in containers]
    if CONTAINER_SERVER in names:
        index = names.index(CONTAINER_SERVER)
    elif field != "spec.predictor" or len(containers) == 1 or not names[0]:
        index = 0
    else:
        raise InvalidSpec(
            f"{field} has several containers, and none of them is named {CONTAINER_SERVER}; give that name to the "
            "server"
        )
    server = {**containers[index], "name": CONTAINER_SERVER}
    return [server, *(dict(item) for number, item in enumerate(containers) if number != index)]


def settings_read(annotations: Mapping[str, str]) -> list[str]:
    """Return the variables that a server reads, from the annotation of its runtime or component."""
    return annotations.get(ANNOTATION_SETTINGS, "").replace(" ", "").split(",")


def stored_uri(container: Container) -> str | None:
    """Return the URI in the variable ``STORAGE_URI`` of the user's own container (docs/storage.md)."""
    uri = next((item.get("value") for item in container.get("env", ()) if item["name"] == STORAGE_URI), None)
    return uri if isinstance(uri, str) else None


# Formats whose servers support only the v2 protocol: as framework keys and as names of a model format.
_V2_FRAMEWORKS: Final = frozenset({"triton", "onnx", "huggingface"})
_V2_FORMATS: Final = frozenset({"triton", "vLLM"})


def model_of(predictor: PredictorSpec) -> ModelSpec | None:
    """Return the predictor's model, or None if it has the user's own containers.

    An older framework key is converted, and wins over `model`: a client that sends it has written it last.
    """
    for framework in FRAMEWORKS:
        extension: PredictorExtensionSpec | None = getattr(predictor, framework)
        if extension is not None:
            return _as_model(framework, extension)
    model = predictor.model
    if model is None or model.model_format.name not in _V2_FORMATS:
        return model
    return _with_v2(model)


def model_field(predictor: PredictorSpec) -> str:
    """Return the place of the predictor's model, for messages."""
    framework = next((name for name in FRAMEWORKS if getattr(predictor, name) is not None), "model")
    return f"spec.predictor.{framework}"


def _as_model(framework: str, extension: PredictorExtensionSpec) -> ModelSpec:
    fields = extension.as_dict() | {"modelFormat": ModelFormat(name=framework).as_dict()}
    model = ModelSpec.model_validate(fields, by_alias=True, by_name=False)
    return _with_v2(model) if framework in _V2_FRAMEWORKS else model


def _with_v2(model: ModelSpec) -> ModelSpec:
    return model.model_copy(update={"protocol_version": model.protocol_version or "v2"})


@dataclass(frozen=True)
class StorageRequest:
    """``sources`` are the URIs in the spec; ``spec`` is storage by the name of a secret instead.

    ``container`` names a ClusterStorageContainer. ``annotations`` are the component's and the service's; the first one
    that has a value wins.
    """

    sources: tuple[StorageSource, ...]
    spec: StorageSpec | None
    container: str | None
    account: ObjectReference
    annotations: tuple[Mapping[str, str], ...]

    def annotated_secret(self, config: CredentialsConfig, known: Objects) -> str | None:
        """Return the secret that an annotation of the component, the service or the account names, in this order."""
        account = known.get(self.account)
        places = (*self.annotations, annotations_of(account) if account else {})
        names = (place.get(config.storage_secret_name_annotation) for place in places)
        return next(filter(None, names), None)

    def account_secrets(self, config: CredentialsConfig, known: Objects) -> tuple[str, ...]:
        """Return the annotated secret alone, or else those that the account lists. Image pull secrets do not count."""
        if annotated := self.annotated_secret(config, known):
            return (annotated,)
        account = known.get(self.account) or {}
        names = tuple(dict.fromkeys(item["name"] for item in account.get("secrets") or () if item.get("name")))
        if len(names) > SECRETS:
            raise InvalidCredentials(
                f"service account {self.account.name} lists {len(names)} secrets, and no more than {SECRETS} are read; "
                f"name the one for storage in its annotation {config.storage_secret_name_annotation}"
            )
        return names

    def spec_secret(self, config: CredentialsConfig, known: Objects) -> str:
        """Return the name of the secret that has the entry for ``spec``."""
        return self.annotated_secret(config, known) or config.storage_spec_secret_name


StorageRequests = Mapping[str, StorageRequest]
"""The requests of a service by the kind of the component."""


def storage_requests(service: InferenceService) -> StorageRequests:
    """Return the request of each component; raises InvalidSpec for fields that contradict each other.

    A predictor with nothing to serve has none, as ``resolve`` reports.
    """
    found: dict[str, StorageRequest] = {}
    for item in components_of(service):
        model = model_of(item.spec) if isinstance(item.spec, PredictorSpec) else None
        if model:
            found[item.kind] = _storage_request(service.metadata, item.spec, model.storage_uri, model.storage)
        elif item.spec.containers or item.kind != PREDICTOR:
            server, *_ = server_first(without_nulls(item.spec.containers or []), item.field)
            found[item.kind] = _storage_request(service.metadata, item.spec, stored_uri(server))
    return found


def references(requests: StorageRequests, config: CredentialsConfig, known: Objects) -> frozenset[ObjectReference]:
    """Return the objects that have to be read before storage can be planned, as far as ``known`` determines them."""
    found: set[ObjectReference] = set()
    for request in requests.values():
        if request.spec is not None or any(source.remote for source in request.sources):
            found.add(request.account)
            found.update(_secrets(request, config, known) if request.account in known else ())
    return frozenset(found)


def _storage_request(
    service: ObjectMeta, component: ComponentSpec, uri: str | None, storage: StorageSpec | None = None
) -> StorageRequest:
    account = component.service_account_name or component.service_account or "default"
    return StorageRequest(
        sources=_given_sources(uri, component.storage_uris),
        spec=storage,
        container=component.storage_container_name if isinstance(component, PredictorSpec) else None,
        account=ObjectReference("ServiceAccount", account),
        annotations=(component.annotations or {}, service.annotations),
    )


def _secrets(request: StorageRequest, config: CredentialsConfig, known: Objects) -> Iterator[ObjectReference]:
    by_name = request.spec is not None
    names = (request.spec_secret(config, known),) if by_name else request.account_secrets(config, known)
    return (ObjectReference("Secret", name) for name in names)


def _given_sources(uri: str | None, several: Sequence[StorageUri] | None) -> tuple[StorageSource, ...]:
    """Return the URIs in the spec; none if it names a path in the storage secret, or no storage at all."""
    if several and uri:
        raise InvalidSpec("storageUri and storageUris are both given; move storageUri into storageUris")
    if uri:
        return (storage_source(uri, MODELS_MOUNT),)
    return tuple(storage_source(item.uri, str(PurePosixPath(item.mount_path))) for item in several or ())
