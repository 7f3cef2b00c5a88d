"""Validation rules across several fields, in CEL, which the API server enforces.

They reject what KServe's webhook rejects, and names that are invalid for child objects. An unknown format, runtime or
field is reported by the operator in a condition instead. Each message says what is wrong and what to do. Rules of a
base class apply to its subclasses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from isvc_operator.api.base import ApiModel
from isvc_operator.api.components import (
    FRAMEWORKS,
    ComponentExtensionSpec,
    ExplainerSpec,
    PredictorExtensionSpec,
    PredictorSpec,
    StorageUri,
    TransformerSpec,
    WorkerSpec,
)
from isvc_operator.api.inference_service import CanarySpec, InferenceService, InferenceServiceSpec
from isvc_operator.api.names import CONTAINER_SERVER


@dataclass(frozen=True)
class Rule:
    """A CEL expression that must be true, and the message and the field if it is not."""

    expression: str
    message: str
    field: str = ""
    only_on_create: bool = False

    def as_dict(self) -> dict[str, Any]:
        result: dict[str, Any] = {"rule": self.expression, "message": self.message}
        if self.only_on_create:
            # A name cannot be changed: the status of an existing service must still be writable.
            result |= {"rule": f"oldSelf.hasValue() || ({self.expression})", "optionalOldSelf": True}
        return result | ({"fieldPath": self.field} if self.field else {})


def rules_of(model: type[ApiModel]) -> tuple[Rule, ...]:
    """Return every rule for `model`."""
    return tuple(rule for base in reversed(model.__mro__) for rule in _RULES.get(base, ()))


_LEGACY: Final = " || ".join(f"has(self.{key})" for key in FRAMEWORKS)
_LEGACY_COUNT: Final = f"[{', '.join(f'has(self.{key})' for key in FRAMEWORKS)}].filter(given, given).size()"
_LEGACY_URI: Final = " || ".join(f"(has(self.{key}) && has(self.{key}.storageUri))" for key in ("model", *FRAMEWORKS))
_HAS_CONTAINERS: Final = "(has(self.containers) && self.containers.size() > 0)"
_SERVER_CONTAINER: Final = (
    f"(has(self.containers) && self.containers.exists(c, has(c.name) && c.name == '{CONTAINER_SERVER}'))"
)

# `app: isvc.<service>-[<predictor>-]predictor` is a label of every pod, which is limited to 63 characters.
_ROOM_BESIDE_PREDICTOR: Final = 63 - len("isvc.-predictor")
_ROOM_BESIDE_TRANSFORMER: Final = 63 - len("isvc.-transformer")

_RULES: Final[Mapping[type, tuple[Rule, ...]]] = {
    InferenceService: (
        Rule(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "must start with a letter and contain only lower-case letters, digits and '-', because "
            "Services are named after it; rename the InferenceService",
            field=".metadata.name",
            only_on_create=True,
        ),
        Rule(
            "self.metadata.name.size() + (has(self.spec.predictor.name) ? self.spec.predictor.name.size() + 1 : 0)"
            f" <= {_ROOM_BESIDE_PREDICTOR}",
            f"longer, with spec.predictor.name, than the {_ROOM_BESIDE_PREDICTOR} characters that the labels "
            "of its pods have room for; choose a shorter name",
            field=".metadata.name",
            only_on_create=True,
        ),
        Rule(
            f"!has(self.spec.transformer) || self.metadata.name.size() <= {_ROOM_BESIDE_TRANSFORMER}",
            f"longer than the {_ROOM_BESIDE_TRANSFORMER} characters that the labels of a transformer's pods "
            "have room for; choose a shorter name",
            field=".metadata.name",
            only_on_create=True,
        ),
    ),
    InferenceServiceSpec: (
        Rule(
            "!has(self.canary) || self.canary.map(c, has(c.trafficPercent) ? c.trafficPercent : 0).sum() <= 100",
            "the trafficPercent of all canaries add up to more than 100; lower them",
            field=".canary",
        ),
        Rule(
            "!has(self.canary) || self.canary.all(c, has(c.predictor.name) && self.canary.exists_one(other, "
            "has(other.predictor.name) && other.predictor.name == c.predictor.name) && "
            "!(has(self.predictor.name) && self.predictor.name == c.predictor.name))",
            "each canary needs a predictor.name of its own, other than that of spec.predictor",
            field=".canary",
        ),
    ),
    CanarySpec: (
        Rule(
            "!has(self.predictor.workerSpec) && !has(self.predictor.maxReplicas) && "
            "!has(self.predictor.scaleTarget) && !has(self.predictor.scaleMetric) && "
            "!has(self.predictor.autoScaling)",
            "a canary does not scale by itself: remove workerSpec, maxReplicas, scaleTarget, scaleMetric and "
            "autoScaling from its predictor",
        ),
    ),
    ComponentExtensionSpec: (
        Rule(
            "!has(self.minReplicas) || !has(self.maxReplicas) || self.maxReplicas == 0 || "
            "self.minReplicas <= self.maxReplicas",
            "minReplicas is greater than maxReplicas; raise maxReplicas or lower minReplicas",
            field=".minReplicas",
        ),
    ),
    PredictorSpec: (
        Rule(
            f"has(self.model) || {_LEGACY} || {_HAS_CONTAINERS}",
            "nothing to serve: give the predictor a model (modelFormat and storageUri) or containers",
        ),
        Rule(
            f"{_LEGACY_COUNT} <= 1",
            f"only one of {', '.join(FRAMEWORKS)} may be given; keep the one to serve",
        ),
        Rule(
            f"!{_SERVER_CONTAINER} || !(has(self.model) || {_LEGACY})",
            f"a model and a container named {CONTAINER_SERVER} are both given; remove the model to serve with "
            "your own container, or give the container another name to run it beside the model",
            field=".containers",
        ),
        Rule(
            f"!has(self.storageUris) || !({_LEGACY_URI})",
            "storageUri and storageUris are both given; move storageUri into storageUris",
            field=".storageUris",
        ),
    ),
    PredictorExtensionSpec: (
        Rule(
            "!has(self.name) || self.name == ''",
            f"name is not allowed here, the container is always named {CONTAINER_SERVER}; remove it",
            field=".name",
        ),
        Rule(
            "!has(self.storageUri) || !has(self.storage) || !has(self.storage.path)",
            "storageUri and storage.path are both given; remove one of them",
            field=".storage",
        ),
    ),
    StorageUri: (
        Rule(
            "!has(self.mountPath) || (self.mountPath != '/' && !self.mountPath.contains('..'))",
            "mountPath must be a folder below /, without '..'; for example /mnt/models/first",
            field=".mountPath",
        ),
    ),
    TransformerSpec: (Rule(_HAS_CONTAINERS, "nothing to run: give the transformer a container with an image"),),
    ExplainerSpec: (
        Rule(
            f"has(self.art) != {_HAS_CONTAINERS}",
            "give the explainer either art or containers, and only one of them",
        ),
    ),
    WorkerSpec: (
        Rule(
            "!has(self.containers) || self.containers.size() <= 1",
            "workerSpec may have only one container; remove the others",
            field=".containers",
        ),
    ),
}
