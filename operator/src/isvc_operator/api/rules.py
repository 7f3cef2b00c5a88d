"""Validation rules across several fields, in CEL.

The API server enforces them when an object is written. The operator evaluates them again, because an object may be
older than a rule (``rule_evaluation.py``). They reject what KServe's webhook rejects, and names that are invalid for
child objects. An unknown format, runtime or field is reported by the operator in a condition instead. Each message says
what is wrong and what to do. Rules of a base class apply to its subclasses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
from isvc_operator.api.core_fields import NO_PYTHON_PATH, ContainerFields
from isvc_operator.api.inference_service import CanarySpec, InferenceService, InferenceServiceSpec
from isvc_operator.api.names import CONTAINER_SERVER, CONTAINER_TRANSFORMER
from isvc_operator.api.rule import Rule, has_variable
from isvc_operator.api.serving_runtime import ServingRuntimeSpec


def rules_of(model: type[ApiModel]) -> tuple[Rule, ...]:
    return tuple(rule for base in reversed(model.__mro__) for rule in _RULES.get(base, ()))


NOTHING_TO_SERVE: Final = "nothing to serve: give the predictor a model (modelFormat and storageUri) or containers"
_LABEL: Final = 63  # characters, the limit of Kubernetes for the value of a label


def _name_fits(length: str, whose: str, app: str, condition: str = "") -> Rule:
    """Return the rule that the label ``app`` of a component's pods, ``isvc.<service>-<component>``, is not too long."""
    room = _LABEL - len(app.replace("<name>", ""))
    return Rule(
        f"{condition}{length} <= {room}",
        f"characters are too long for the name of {whose}: at most {room} are possible, because the label app of its "
        f"pods is {app}, and Kubernetes limits a label to {_LABEL}; choose a shorter name",
        field=".metadata.name",
        only_on_create=True,
        counted=length,
    )


_LEGACY: Final = " || ".join(f"has(self.{key})" for key in FRAMEWORKS)
_LEGACY_COUNT: Final = f"[{', '.join(f'has(self.{key})' for key in FRAMEWORKS)}].filter(given, given).size()"
_LEGACY_URI: Final = " || ".join(f"(has(self.{key}) && has(self.{key}.storageUri))" for key in ("model", *FRAMEWORKS))
_HAS_CONTAINERS: Final = "(has(self.containers) && self.containers.size() > 0)"
_SERVER_CONTAINER: Final = (
    f"(has(self.containers) && self.containers.exists(c, has(c.name) && c.name == '{CONTAINER_SERVER}'))"
)
_SEVERAL_URIS: Final = "(has(self.storageUris) && self.storageUris.size() > 0)"
_STABLE_MODEL: Final = " || ".join(f"has(self.predictor.{key})" for key in ("model", *FRAMEWORKS))

_RULES: Final[Mapping[type, tuple[Rule, ...]]] = {
    InferenceService: (
        Rule(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "the name of an InferenceService must start with a letter and contain only lower-case letters, digits "
            "and '-', because Services are named after it; rename the InferenceService",
            field=".metadata.name",
            only_on_create=True,
        ),
        _name_fits(
            "(self.metadata.name.size() + (has(self.spec.predictor.name) ? self.spec.predictor.name.size() + 1 : 0))",
            "a service, with spec.predictor.name",
            "isvc.<name>-predictor",
        ),
        _name_fits(
            "self.metadata.name.size()",
            "a service with a transformer",
            "isvc.<name>-transformer",
            condition="!has(self.spec.transformer) || ",
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
        Rule(
            f"!has(self.canary) || self.canary.size() == 0 || {_STABLE_MODEL} || (has(self.predictor.containers) && "
            f"self.predictor.containers.exists(c, {has_variable('c', 'STORAGE_URI')}))",
            "a canary needs a predictor with a model beside it; give spec.predictor a model",
            field=".canary",
        ),
        Rule(
            "!has(self.canary) || self.canary.all(c, !has(c.predictor.minReplicas) || c.predictor.minReplicas <= "
            "(has(self.predictor.minReplicas) ? self.predictor.minReplicas : 1))",
            "a canary has a higher minReplicas than spec.predictor, which has 1 if it names none; lower the canary's",
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
    ContainerFields: (NO_PYTHON_PATH,),
    ComponentExtensionSpec: (
        Rule(
            "!has(self.minReplicas) || !has(self.maxReplicas) || self.maxReplicas == 0 || "
            "self.minReplicas <= self.maxReplicas",
            "greater than maxReplicas; raise maxReplicas or lower minReplicas",
            field=".minReplicas",
        ),
    ),
    PredictorSpec: (
        Rule(
            f"has(self.model) || {_LEGACY} || {_HAS_CONTAINERS}",
            NOTHING_TO_SERVE,
        ),
        Rule(
            f"{_LEGACY_COUNT} <= 1",
            f"only one of {', '.join(FRAMEWORKS)} may be given; keep the one to serve",
        ),
        Rule(
            f"!has(self.model) || {_LEGACY} || (has(self.model.modelFormat) && has(self.model.modelFormat.name))",
            "the model has no format; give modelFormat a name, such as pytorch",
            field=".model.modelFormat",
        ),
        Rule(
            f"!{_SERVER_CONTAINER} || !(has(self.model) || {_LEGACY})",
            f"a model and a container named {CONTAINER_SERVER} are both given; remove the model to serve with "
            "your own container, or give the container another name to run it beside the model",
            field=".containers",
        ),
        Rule(
            f"!{_SEVERAL_URIS} || !({_LEGACY_URI})",
            "storageUri and storageUris are both given; move storageUri into storageUris",
            field=".storageUris",
        ),
        Rule(
            "!has(self.containers) || !self.containers.exists(c, has(c.name) && "
            f"c.name == '{CONTAINER_TRANSFORMER}' && {has_variable('c', 'STORAGE_URI')})",
            f"{CONTAINER_TRANSFORMER} sets STORAGE_URI, but shares the predictor's pod and its models; remove it, or "
            "set storageUri of the predictor",
            field=".containers",
        ),
        Rule(
            f"has(self.model) || {_LEGACY} || !{_HAS_CONTAINERS} || !has(self.containers[0].env) || "
            "!self.containers[0].env.exists(v, has(v.name) && v.name == 'PROTOCOL' && has(v.value) && "
            "!(v.value in ['v1', 'v2']))",
            "the first container sets PROTOCOL to something else than v1 or v2; write one of them",
            field=".containers",
        ),
    ),
    PredictorExtensionSpec: (
        Rule(
            "!has(self.name) || self.name == ''",
            f"not allowed here, the container is always named {CONTAINER_SERVER}; remove it",
            field=".name",
        ),
        Rule(
            "!has(self.storageUri) || !has(self.storage) || !has(self.storage.path)",
            "storageUri and storage.path are both given; remove one of them",
            field=".storage",
        ),
        Rule(
            "!has(self.confidential) || !has(self.confidential.enabled) || !self.confidential.enabled || "
            "(has(self.storageUri) && self.storageUri != '')",
            "confidential.enabled needs a storageUri; give one",
            field=".confidential",
        ),
    ),
    StorageUri: (
        Rule(
            "!has(self.mountPath) || (self.mountPath != '/' && !self.mountPath.contains('..'))",
            "must be a folder below /, without '..'; for example /mnt/models/first",
            field=".mountPath",
        ),
    ),
    TransformerSpec: (Rule(_HAS_CONTAINERS, "nothing to run: give the transformer a container with an image"),),
    ExplainerSpec: (
        Rule(
            f"has(self.art) != {_HAS_CONTAINERS}",
            "give the explainer either art or containers, and only one of them",
        ),
        Rule(
            f"!{_SEVERAL_URIS} || !has(self.art) || !has(self.art.storageUri)",
            "art.storageUri and storageUris are both given; move storageUri into storageUris",
            field=".storageUris",
        ),
    ),
    WorkerSpec: (
        Rule(
            "!has(self.containers) || self.containers.size() <= 1",
            "workerSpec may have only one container; remove the others",
            field=".containers",
        ),
    ),
    ServingRuntimeSpec: (
        Rule(
            "!has(self.supportedModelFormats) || (has(self.disabled) && self.disabled) || "
            "self.supportedModelFormats.all(a, !has(a.priority) || !has(a.autoSelect) || !a.autoSelect || "
            "self.supportedModelFormats.all(b, a.name != b.name || !has(b.priority) || !has(b.autoSelect) || "
            "!b.autoSelect || a.priority == b.priority))",
            "a model format has two different priorities; give all of its versions the same",
            field=".supportedModelFormats",
        ),
    ),
}
