"""The three components of an InferenceService: predictor, transformer and explainer."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from isvc_operator.api.autoscaling import AutoScaling, DeploymentStrategy
from isvc_operator.api.base import ApiModel, Int32, Int64, Texts
from isvc_operator.api.core_fields import ContainerFields, PodSpecFields

# In KServe's order: if several are given, the first one is used.
FRAMEWORKS: Final = (
    "sklearn",
    "tensorflow",
    "xgboost",
    "pytorch",
    "triton",
    "onnx",
    "huggingface",
    "pmml",
    "lightgbm",
    "paddle",
)


class StorageSpec(ApiModel):
    """A model location by the name of a storage secret instead of a URI."""

    key: str | None = Field(default=None, description="Entry of the storage secret with the credentials.")
    path: str | None = Field(default=None, description="Path of the model inside the storage.")
    schema_path: str | None = Field(default=None, description="Path of the model's schema file.")
    parameters: dict[str, str] | None = Field(
        default=None, description="Overrides of the secret's settings, such as type and bucket."
    )


class StorageUri(ApiModel):
    """One of several downloads, each with its own place in the container."""

    uri: str = Field(min_length=1, description="Location to download from: pvc://, s3://, gs://, https://, …")
    mount_path: str = Field(
        default="/mnt/models", max_length=255, pattern="^/.*", description="Folder to download into."
    )


class ModelFormat(ApiModel):
    """The format of a model; a serving runtime that lists it will serve it."""

    name: str = Field(default="", description="Name of the format: pytorch, …")
    version: str | None = Field(default=None, description="Version of the format.")


class ConfidentialSpec(ApiModel):
    """Confidential model storage."""

    enabled: bool | None = Field(default=None, description="Decrypt the model with a key from a key broker.")
    resource_id: str | None = Field(
        default=None,
        pattern="^(kbs:///[a-zA-Z0-9_.-]+/[a-zA-Z0-9_.-]+/[a-zA-Z0-9_.-]+)?$",
        description="Key to request from the broker: kbs:///repository/type/tag.",
    )


class PredictorExtensionSpec(ContainerFields):
    """A model for a serving runtime. Container fields given here win over the runtime's."""

    storage_uri: str | None = Field(
        default=None,
        description="Location of the model: pvc://claim/path, s3://bucket/prefix, gs://…, https://…",
    )
    runtime_version: str | None = Field(default=None, description="Tag of the runtime's image.")
    protocol_version: str | None = Field(default=None, description="Protocol: v1, v2, grpc-v1 or grpc-v2.")
    storage: StorageSpec | None = None
    confidential: ConfidentialSpec | None = None


class ModelSpec(PredictorExtensionSpec):
    """A model, its format and, optionally, the runtime to serve it with."""

    model_format: ModelFormat = ModelFormat()
    runtime: str | None = Field(
        default=None, description="ServingRuntime or ClusterServingRuntime to use; by default one that fits."
    )


class LoggerStorage(ApiModel):
    """Where logged payloads are stored."""

    path: str = Field(description="Path inside the storage.")
    parameters: dict[str, str] = Field(description="Settings of the storage, such as type and bucket.")
    key: str = Field(description="Entry of the storage secret with the credentials.")
    service_account_name: str | None = Field(default=None, description="ServiceAccount that may write there.")


class LoggerSpec(ApiModel):
    """Sends requests and responses to a URL as CloudEvents."""

    mode: Literal["all", "request", "response"] = Field(description="What to log.")
    url: str | None = Field(
        default=None, description="Where to send the events; logger.defaultUrl of the ConfigMap by default."
    )
    metadata_headers: Texts | None = Field(
        default=None, description="Headers of the request that are sent with its events."
    )
    metadata_annotations: Texts | None = Field(
        default=None, description="Annotations of the pods that are sent with the events."
    )
    storage: LoggerStorage | None = None
    marshaller_url: str | None = Field(default=None, description="Service that formats stored payloads.")
    batch_size: int | None = Field(default=None, description="Number of payloads stored together.")
    batch_interval: str | None = Field(default=None, description="Maximum time to wait for a full batch, such as 10s.")


class BatcherSpec(ApiModel):
    """Merges concurrent requests into one call of the model. Zero or less keeps the default."""

    max_batch_size: int | None = Field(default=None, description="Maximum number of instances in a call.")
    max_latency: int | None = Field(
        default=None, description="Limits batches so that a call is expected to take at most this many milliseconds."
    )
    timeout: int | None = Field(
        default=None, description="Timeout of a request in milliseconds, including its time in the queue."
    )


class ComponentExtensionSpec(ApiModel):
    """Scaling, batching, logging, roll-out and downloads of one component."""

    min_replicas: Annotated[Int32, Field(ge=0)] | None = Field(
        default=None, description="Minimum number of pods; 1 by default. With 0, KEDA scales to zero."
    )
    max_replicas: Annotated[Int32, Field(ge=0)] | None = Field(
        default=None, description="Maximum number of pods. If it is above minReplicas, an autoscaler is made."
    )
    scale_target: Int32 | None = Field(default=None, description="Percentage of the requested cpu or memory.")
    scale_metric: Literal["cpu", "memory", "concurrency", "rps"] | None = Field(
        default=None, description="Metric to scale by."
    )
    scale_metric_type: Literal["Utilization", "Value", "AverageValue"] | None = Field(
        default=None, description="Type of scaleTarget."
    )
    auto_scaling: AutoScaling | None = None
    container_concurrency: Annotated[Int64, Field(ge=0)] | None = Field(
        default=None, description="Number of workers of a transformer or an explainer; it has no effect in a predictor."
    )
    timeout: Int64 | None = Field(default=None, description="Timeout of a request in seconds.")
    canary_traffic_percent: Annotated[Int64, Field(ge=0, le=100)] | None = Field(
        default=None,
        description="Share of the traffic for the newest revision. Below 100, changes of the pods are held back.",
    )
    logger: LoggerSpec | None = None
    batcher: BatcherSpec | None = None
    labels: dict[str, str] | None = Field(default=None, description="Labels for the component's objects.")
    annotations: dict[str, str] | None = Field(default=None, description="Annotations for the component's objects.")
    deployment_strategy: DeploymentStrategy | None = None
    storage_uris: list[StorageUri] | None = Field(
        default=None, max_length=100, description="Several downloads, each with its own folder."
    )


class WorkerSpec(PodSpecFields):
    """Workers of a predictor that spans several nodes."""

    pipeline_parallel_size: int | None = Field(default=None, ge=1, description="Number of pipeline stages.")
    tensor_parallel_size: int | None = Field(default=None, ge=1, description="Number of tensor shards per stage.")


class PredictorSpec(PodSpecFields, ComponentExtensionSpec):
    """Serves the model. Give one of: model, one of the older framework keys, or containers."""

    name: str | None = Field(
        default=None,
        max_length=63,
        pattern="^[a-z]([-a-z0-9]*[a-z0-9])?$",
        description="Part of the names of the predictor's objects: <service>-<name>-predictor.",
    )
    model: ModelSpec | None = None
    sklearn: PredictorExtensionSpec | None = None
    tensorflow: PredictorExtensionSpec | None = None
    xgboost: PredictorExtensionSpec | None = None
    pytorch: PredictorExtensionSpec | None = None
    triton: PredictorExtensionSpec | None = None
    onnx: PredictorExtensionSpec | None = None
    huggingface: PredictorExtensionSpec | None = None
    pmml: PredictorExtensionSpec | None = None
    lightgbm: PredictorExtensionSpec | None = None
    paddle: PredictorExtensionSpec | None = None
    storage_container_name: str | None = Field(default=None, description="ClusterStorageContainer to download with.")
    worker_spec: WorkerSpec | None = None


class TransformerSpec(PodSpecFields, ComponentExtensionSpec):
    """Transforms requests for the predictor and its responses."""


class ArtExplainerSpec(ContainerFields):
    """An explainer of the Adversarial Robustness Toolbox."""

    type: str | None = Field(default=None, description="Kind of explainer, such as SquareAttack.")
    storage_uri: str | None = Field(default=None, description="Location of the explainer's model.")
    runtime_version: str | None = Field(default=None, description="Tag of the explainer's image.")
    config: dict[str, str] | None = Field(default=None, description="Settings of the explainer.")
    storage: StorageSpec | None = None


class ExplainerSpec(PodSpecFields, ComponentExtensionSpec):
    """Explains predictions."""

    art: ArtExplainerSpec | None = None
