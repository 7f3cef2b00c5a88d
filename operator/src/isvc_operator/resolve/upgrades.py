"""When a service's pods follow the operator's version, and digests of everything that they are rendered from.

A digest is compared with one that another version has made, so it is of what people have written, not of what this
version makes of it: without defaults, and without settings that do not reach pods.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from isvc_operator.api import storage_container
from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.names import ANNOTATION_UPGRADE_POLICY, CONFIG_MAP, GROUP, NOT_OF_PODS, PREDICTOR
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.config import OperatorConfig, UpgradePolicy
from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import LAST_APPLIED, annotations_of, digest_of
from isvc_operator.resolve.requested import components_of
from isvc_operator.resolve.runtime import ChosenRuntime
from isvc_operator.resolve.storage.plan import Objects, StoragePlan

# The sections of the configuration that reach pods, and those of their fields that do; None for all.
_SETTINGS: Mapping[str, set[str] | None] = {
    "storage_initializer": None,
    "credentials": None,
    "security": None,
    "logger": None,
    "service": {"tls_secret_name"},
    "inference_service": {"resource", "service_annotation_disallowed_list", "service_label_disallowed_list"},
}
_OF_MODELS = {"storage_initializer", "credentials"}
_READ_OF_RUNTIMES = ("isvc-operator.io/", f"{GROUP}/")  # the domains of annotations


def upgrade_policy(service: ObjectMeta, config: OperatorConfig) -> UpgradePolicy:
    """Return the service's own policy, or else the administrator's; raises InvalidSpec."""
    own = service.annotations.get(ANNOTATION_UPGRADE_POLICY)
    if own is None:
        return config.inference_service.upgrade_policy
    try:
        return UpgradePolicy(own)
    except ValueError:
        known = " or ".join(UpgradePolicy)
        raise InvalidSpec(f"annotation {ANNOTATION_UPGRADE_POLICY} is {own!r}; write {known}") from None


@dataclass(frozen=True)
class InputDigests:
    """Digests of what pods are rendered from, by the kind of the component: of all, and of the service's own part.

    ``shared`` has one of each of the others, by its kind and name: ``ClusterServingRuntime/isvc-mar=DIGEST,…``.
    """

    every: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)
    shared: str = ""


def inputs_of(
    service: InferenceService,
    chosen: ChosenRuntime | None,
    config: OperatorConfig,
    *,
    objects: Objects,
    plans: Collection[StoragePlan],
) -> InputDigests:
    """Return the digests of what the pods of each kind of component are rendered from.

    ``plans`` are those of its models: a setting or a ClusterStorageContainer that they do not use changes no service.
    A transformer and an explainer are rendered for their predictor, too. Of a secret, a digest has the names of the
    keys and not their values, so that nobody can guess these. What is empty is left out: a later version may add to
    this, and comes to the same digest for services without it.
    """
    runtime = chosen and _runtime(chosen.runtime)
    names = _SETTINGS if plans else _SETTINGS.keys() - _OF_MODELS
    settings = {name: _given(getattr(config, name), _SETTINGS[name]) for name in names}
    if plans and not any(plan.copied for plan in plans):
        settings["storage_initializer"].pop("image", None)
    digests = sorted([plan.chosen.metadata.name, digest_of(_given(plan.chosen.spec))] for plan in plans if plan.chosen)
    referred = _objects(objects)
    shared = {"runtime": runtime, **settings, "containers": digests, "objects": referred}
    named = {
        **({f"{runtime[0]}/{runtime[1]}": runtime} if runtime else {}),
        f"ConfigMap/{CONFIG_MAP}": settings,
        **{f"{storage_container.KIND}/{name}": digest for name, digest in digests},
        **{f"{kind}/{name}": item for kind, name, item in referred},
    }
    predictor = {
        "labels": service.metadata.labels,
        "annotations": {
            name: value
            for name, value in service.metadata.annotations.items()
            if name != LAST_APPLIED and name not in NOT_OF_PODS
        },
        PREDICTOR: _given(service.spec.predictor),
    }
    callers = {item.kind: {**predictor, "own": _given(item.spec)} for item in components_of(service)[1:]}
    own: Mapping[str, Mapping[str, Any]] = {PREDICTOR: predictor, **callers}
    return InputDigests(
        {kind: _digest({**shared, **parts}) for kind, parts in own.items()},
        {kind: _digest(parts) for kind, parts in own.items()},
        ",".join(f"{name}={digest_of(part)}" for name, part in named.items()),
    )


def _digest(parts: Mapping[str, Any]) -> str:
    return digest_of({name: part for name, part in parts.items() if part})


def _runtime(runtime: ServingRuntime) -> list[Any]:
    """Return the runtime, of its annotations those that are read."""
    read = {name: value for name, value in runtime.metadata.annotations.items() if name.startswith(_READ_OF_RUNTIMES)}
    return [runtime.kind, runtime.metadata.name, read, _given(runtime.spec)]


def _given(part: BaseModel, fields: set[str] | None = None) -> Any:
    return part.model_dump(mode="json", by_alias=True, include=fields, exclude_unset=True, exclude_none=True)


def _objects(objects: Objects) -> list[Any]:
    found = ((*reference, item) for reference, item in objects.items())
    return sorted(
        [kind, name, item and [sorted(item.get("data") or ()), dict(annotations_of(item)), item.get("secrets")]]
        for kind, name, item in found
    )
