"""ServingRuntime and ClusterServingRuntime (serving.kserve.io/v1alpha1): pod templates for model formats."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from isvc_operator.api.base import ApiModel, Int32, ObjectMeta
from isvc_operator.api.core_fields import Containers, Core, Named
from isvc_operator.api.names import GROUP

VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "ServingRuntime"
PLURAL: Final = "servingruntimes"
CLUSTER_KIND: Final = "ClusterServingRuntime"
CLUSTER_PLURAL: Final = "clusterservingruntimes"
_MODEL_MESH: Final = "Accepted for compatibility with ModelMesh; not used."


class SupportedModelFormat(ApiModel):
    """A model format that the runtime serves."""

    name: str = Field(max_length=253, description="Name of the format: pytorch, …")
    version: str | None = Field(default=None, description="Version of the format; any, if absent.")
    auto_select: bool = Field(
        default=False, description="Whether it may be selected for services that name no runtime."
    )
    priority: Annotated[Int32, Field(ge=1)] | None = Field(
        default=None, description="Of several runtimes for a format, the one with the highest priority is selected."
    )


class RuntimePodSpec(ApiModel):
    """The part of a pod that a runtime may set."""

    containers: Containers = Field(description="Containers; the one named kserve-container serves the model.")
    volumes: list[Named] | None = None
    node_selector: dict[str, str] | None = None
    affinity: Core | None = None
    tolerations: list[Core] | None = None
    labels: dict[str, str] | None = Field(default=None, description="Labels for the pods.")
    annotations: dict[str, str] | None = Field(default=None, description="Annotations for the pods.")
    image_pull_secrets: list[Named] | None = None
    host_ipc: bool | None = Field(default=None, alias="hostIPC")
    scheduler_name: str | None = None
    resource_claims: list[Named] | None = None


class RuntimeWorkerSpec(RuntimePodSpec):
    """Workers of a runtime that spans several nodes."""

    pipeline_parallel_size: int | None = Field(default=None, description="Number of pipeline stages.")
    tensor_parallel_size: int | None = Field(default=None, description="Number of tensor shards per stage.")


class StorageHelper(ApiModel):
    """Accepted for compatibility with ModelMesh; not used."""

    disabled: bool | None = Field(default=None, description=_MODEL_MESH)


class BuiltInAdapter(ApiModel):
    """Accepted for compatibility with ModelMesh; not used."""

    server_type: str | None = Field(default=None, description=_MODEL_MESH)
    runtime_management_port: int | None = Field(default=None, description=_MODEL_MESH)
    mem_buffer_bytes: int | None = Field(default=None, description=_MODEL_MESH)
    model_loading_timeout_millis: int | None = Field(default=None, description=_MODEL_MESH)
    env: list[Core] | None = Field(default=None, description=_MODEL_MESH)


class ServingRuntimeSpec(RuntimePodSpec):
    """The models that the runtime serves, and the pod that serves them."""

    supported_model_formats: list[SupportedModelFormat] = Field(
        default=[], max_length=64, description="Formats that the runtime serves."
    )
    multi_model: bool | None = Field(default=None, description="Whether one pod serves many services.")
    disabled: bool = Field(default=False, description="A disabled runtime is never used.")
    protocol_versions: list[str] = Field(
        default=[], description="Protocols that the runtime supports: v1, v2, grpc-v1, grpc-v2."
    )
    worker_spec: RuntimeWorkerSpec | None = None
    grpc_endpoint: str | None = Field(default=None, description=_MODEL_MESH)
    grpc_data_endpoint: str | None = Field(default=None, description=_MODEL_MESH)
    http_data_endpoint: str | None = Field(default=None, description=_MODEL_MESH)
    storage_helper: StorageHelper | None = None
    built_in_adapter: BuiltInAdapter | None = None
    replicas: int | None = Field(default=None, description=_MODEL_MESH)


class ServingRuntime(ApiModel):
    """A pod template for models of some formats, in one namespace."""

    api_version: str = API_VERSION
    kind: str = KIND
    metadata: ObjectMeta = ObjectMeta()
    spec: ServingRuntimeSpec

    @property
    def cluster_wide(self) -> bool:
        return self.kind == CLUSTER_KIND


class ClusterServingRuntime(ServingRuntime):
    """A pod template for models of some formats, in every namespace."""

    kind: str = CLUSTER_KIND
