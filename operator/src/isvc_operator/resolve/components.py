"""What a service requests: its components, the names of their Deployments, which container serves, settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from isvc_operator.api.components import ExplainerSpec, PredictorSpec, TransformerSpec
from isvc_operator.api.inference_service import InferenceService, InferenceServiceSpec
from isvc_operator.api.names import (
    ANNOTATION_SETTINGS,
    CONTAINER_SERVER,
    EXPLAINER,
    PREDICTOR,
    TRANSFORMER,
    predictor_name,
    wrapper_name,
)
from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import Container

STORAGE_URI: Final = "STORAGE_URI"
ComponentSpec = PredictorSpec | TransformerSpec | ExplainerSpec


@dataclass(frozen=True)
class RequestedComponent:
    """A component of the spec; ``name`` is that of its Deployment and its Service."""

    kind: str
    name: str
    spec: ComponentSpec

    @property
    def field(self) -> str:
        """The component's place in the service, for messages."""
        return f"spec.{self.kind}"


def components_of(service: InferenceService) -> tuple[RequestedComponent, ...]:
    """Return the components that get a Deployment, the predictor first.

    An explainer without containers is one of the toolkit ``art``, which is not supported.
    """
    specs = {
        kind: spec for kind, spec in specified_components(service.spec) if kind != EXPLAINER or bool(spec.containers)
    }
    names = component_names(
        service.metadata.name,
        predictor=service.spec.predictor.name,
        transformer=TRANSFORMER in specs,
        explainer=EXPLAINER in specs,
    )
    return tuple(RequestedComponent(kind, names[kind], spec) for kind, spec in specs.items())


def specified_components(spec: InferenceServiceSpec) -> Iterator[tuple[str, ComponentSpec]]:
    """Yield the kind and the spec of each component in the spec, also of one that gets no Deployment."""
    yield PREDICTOR, spec.predictor
    if spec.transformer:
        yield TRANSFORMER, spec.transformer
    if spec.explainer:
        yield EXPLAINER, spec.explainer


def component_names(service: str, *, predictor: str | None, transformer: bool, explainer: bool) -> dict[str, str]:
    """Return the names of the components' Deployments and Services by kind; ``predictor`` is ``predictor.name``."""
    names = {PREDICTOR: predictor_name(service, predictor)}
    if transformer:
        names[TRANSFORMER] = wrapper_name(service, TRANSFORMER)
    if explainer:
        names[EXPLAINER] = wrapper_name(service, EXPLAINER)
    return names


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


def is_usable(number: int) -> bool:
    """Whether a number of a spec has an effect: as with KServe, zero or less keeps the default."""
    return number > 0


def settings_read(annotations: Mapping[str, str]) -> list[str]:
    """Return the variables that a server reads, from the annotation of its runtime or component."""
    return annotations.get(ANNOTATION_SETTINGS, "").replace(" ", "").split(",")


def stored_uri(container: Container) -> str | None:
    """Return the URI in the variable ``STORAGE_URI`` of the user's own container (docs/storage.md)."""
    uri = next((item.get("value") for item in container.get("env", ()) if item["name"] == STORAGE_URI), None)
    return uri if isinstance(uri, str) else None
