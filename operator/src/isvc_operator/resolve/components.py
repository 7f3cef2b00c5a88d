"""The components that a service requests, and the names of their Deployments and Services."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from isvc_operator.api.components import ExplainerSpec, PredictorSpec, TransformerSpec
from isvc_operator.api.inference_service import InferenceService, InferenceServiceSpec
from isvc_operator.api.names import EXPLAINER, PREDICTOR, TRANSFORMER, predictor_name, wrapper_name

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
