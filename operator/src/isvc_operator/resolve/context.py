"""What the steps of the pipeline know beside the component that they complete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from isvc_operator.api.components import ModelSpec
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.config import OperatorConfig
from isvc_operator.resolve.component import Component
from isvc_operator.resolve.components import RequestedComponent
from isvc_operator.resolve.runtime import ChosenRuntime
from isvc_operator.resolve.storage.objects import ObjectReference
from isvc_operator.resolve.storage.plan import StorageContext


@dataclass(frozen=True)
class ModelOnRuntime:
    """The model of a predictor, and the runtime that serves it."""

    model: ModelSpec
    chosen: ChosenRuntime


@dataclass(frozen=True)
class Predictor:
    """The predictor for the components that call it, and the protocol that it speaks."""

    component: Component
    protocol: str


@dataclass(frozen=True)
class Context:
    """A component as it is requested, and what it depends on.

    ``served`` is None for the user's own containers, ``predictor`` for the predictor itself. ``secret`` is that of TLS,
    if the pods are to serve it; ``keda``: the cluster has KEDA.
    """

    service: InferenceService
    requested: RequestedComponent
    config: OperatorConfig
    storage: StorageContext
    served: ModelOnRuntime | None = None
    predictor: Predictor | None = None
    secret: ObjectReference | None = None
    keda: bool = True


Step = Callable[[Component, Context], Component]
"""Takes a component and returns it with one thing more decided; raises InvalidSpec."""
