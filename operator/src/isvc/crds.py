"""The CustomResourceDefinitions, built from the models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from isvc_operator.api import inference_service, serving_runtime, storage_container
from isvc_operator.api.base import ApiModel
from isvc_operator.api.names import GROUP
from isvc_operator.api.schema import Schema, structural_schema


@dataclass(frozen=True)
class CustomResource:
    """A custom resource: its model, names, scope and printer columns."""

    model: type[ApiModel]
    version: str
    plural: str
    kind: str
    scope: str
    columns: tuple[tuple[str, str, str], ...]  # name, type, JSONPath
    short_names: tuple[str, ...] = ()
    has_status: bool = False

    @property
    def name(self) -> str:
        return f"{self.plural}.{GROUP}"


_TRAFFIC: Final = ".status.components.predictor.traffic"
_AGE: Final = ("Age", "date", ".metadata.creationTimestamp")
_RUNTIME_COLUMNS: Final = (
    ("Disabled", "boolean", ".spec.disabled"),
    ("ModelType", "string", ".spec.supportedModelFormats[*].name"),
    ("Containers", "string", ".spec.containers[*].name"),
    _AGE,
)

RESOURCES: Final = (
    CustomResource(
        model=inference_service.InferenceService,
        version=inference_service.VERSION,
        plural=inference_service.PLURAL,
        kind=inference_service.KIND,
        scope="Namespaced",
        columns=(
            ("URL", "string", ".status.url"),
            ("Ready", "string", ".status.conditions[?(@.type=='Ready')].status"),
            ("Prev", "integer", f"{_TRAFFIC}[?(@.tag=='prev')].percent"),
            ("Latest", "integer", f"{_TRAFFIC}[?(@.latestRevision==true)].percent"),
            ("PrevRolledoutRevision", "string", f"{_TRAFFIC}[?(@.tag=='prev')].revisionName"),
            ("LatestReadyRevision", "string", f"{_TRAFFIC}[?(@.latestRevision==true)].revisionName"),
            _AGE,
        ),
        short_names=("isvc",),
        has_status=True,
    ),
    CustomResource(
        model=serving_runtime.ServingRuntime,
        version=serving_runtime.VERSION,
        plural=serving_runtime.PLURAL,
        kind=serving_runtime.KIND,
        scope="Namespaced",
        columns=_RUNTIME_COLUMNS,
    ),
    CustomResource(
        model=serving_runtime.ClusterServingRuntime,
        version=serving_runtime.VERSION,
        plural=serving_runtime.CLUSTER_PLURAL,
        kind=serving_runtime.CLUSTER_KIND,
        scope="Cluster",
        columns=_RUNTIME_COLUMNS,
    ),
    CustomResource(
        model=storage_container.ClusterStorageContainer,
        version=storage_container.VERSION,
        plural=storage_container.PLURAL,
        kind=storage_container.KIND,
        scope="Cluster",
        columns=(_AGE,),
    ),
)


def build_crd(resource: CustomResource) -> dict[str, Any]:
    """Return the CustomResourceDefinition of one resource."""
    names = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
    }
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [
            {"name": name, "type": kind, "jsonPath": path} for name, kind, path in resource.columns
        ],
        "subresources": {"status": {}} if resource.has_status else {},
        "schema": {"openAPIV3Schema": schema_of(resource)},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.name},
        "spec": {
            "group": GROUP,
            "names": names | ({"shortNames": list(resource.short_names)} if resource.short_names else {}),
            "scope": resource.scope,
            "versions": [version],
        },
    }


def schema_of(resource: CustomResource) -> Schema:
    """Return the schema of the resource's objects.

    The API server defines type and metadata; only the length of a name is added. An object that no operator has seen
    yet is behind its generation: without this, kstatus takes one without a status for finished.
    """
    schema = structural_schema(resource.model)
    if resource.has_status:
        schema["properties"]["status"]["default"] = {"observedGeneration": -1}
    metadata = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 253}}}
    own = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": metadata}
    kept = {key: value for key, value in schema.items() if key != "x-kubernetes-preserve-unknown-fields"}
    return kept | {"properties": schema["properties"] | own}
