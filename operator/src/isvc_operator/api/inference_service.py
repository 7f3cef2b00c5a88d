"""The InferenceService (serving.kserve.io/v1beta1): the spec and the status of one model endpoint."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from isvc_operator.api.base import ApiModel, Int32, Int64, ObjectMeta, one_of
from isvc_operator.api.components import ExplainerSpec, PredictorSpec, TransformerSpec
from isvc_operator.api.names import GROUP

VERSION: Final = "v1beta1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "InferenceService"
PLURAL: Final = "inferenceservices"

TRANSITION_STATUSES: Final = ("", "UpToDate", "InProgress", "BlockedByFailedLoad", "InvalidSpec")
MODEL_STATES: Final = ("", "Pending", "Standby", "Loading", "Loaded", "FailedToLoad")
FAILURE_REASONS: Final = (
    "ModelLoadFailed",
    "RuntimeUnhealthy",
    "RuntimeDisabled",
    "NoSupportingRuntime",
    "RuntimeNotRecognized",
    "InvalidPredictorSpec",
)


class CanarySpec(ApiModel):
    """A second predictor that gets a share of the traffic."""

    predictor: PredictorSpec
    traffic_percent: Annotated[Int32, Field(ge=0, le=100)] | None = Field(
        default=None, description="Share of the traffic, in per cent."
    )


class InferenceServiceSpec(ApiModel):
    """The components of the service."""

    predictor: PredictorSpec
    transformer: TransformerSpec | None = None
    explainer: ExplainerSpec | None = None
    canary: list[CanarySpec] | None = Field(
        default=None,
        max_length=20,
        description="Additional predictors, which are not created. Changes of the predictor's pods are held back.",
    )


class Condition(ApiModel):
    """A condition of the service, such as Ready."""

    type: str = Field(description="Type of the condition.")
    status: str = Field(description="True, False or Unknown.")
    severity: str | None = Field(default=None, description="Warning or Info if Ready does not depend on the condition.")
    reason: str | None = Field(default=None, description="The reason in one word.")
    message: str | None = Field(default=None, description="What happened and what to do about it.")
    last_transition_time: str | None = Field(default=None, description="When the status of the condition last changed.")


class Addressable(ApiModel):
    """An address inside the cluster."""

    name: str | None = Field(default=None, description="Name of the address.")
    url: str | None = Field(default=None, description="URL inside the cluster.")
    audience: str | None = Field(default=None, description="OIDC audience of the address.")
    ca_certs: str | None = Field(default=None, alias="CACerts", description="Certificates to trust, in PEM form.")


class TrafficTarget(ApiModel):
    """Share of the traffic that one revision gets."""

    revision_name: str | None = Field(default=None, description="Name of the revision.")
    configuration_name: str | None = Field(default=None, description="Configuration whose newest revision it is.")
    latest_revision: bool | None = Field(default=None, description="Whether it is the newest revision.")
    percent: Int64 | None = Field(default=None, description="Share of the traffic, in per cent.")
    tag: str | None = Field(default=None, description="Name of the revision's own URL.")
    url: str | None = Field(default=None, description="The revision's own URL.")


class ComponentStatus(ApiModel):
    """URLs and revisions of one component."""

    url: str | None = Field(default=None, description="URL of the component.")
    rest_url: str | None = Field(default=None, description="URL for REST calls.")
    grpc_url: str | None = Field(default=None, description="URL for gRPC calls.")
    address: Addressable | None = None
    latest_ready_revision: str | None = Field(default=None, description="Newest revision that is ready.")
    latest_created_revision: str | None = Field(default=None, description="Newest revision.")
    previous_rolledout_revision: str | None = Field(
        default=None, description="Revision that had all the traffic before."
    )
    latest_rolledout_revision: str | None = Field(default=None, description="Revision that has all the traffic.")
    traffic: list[TrafficTarget] | None = Field(default=None, description="How the traffic is split.")


class ModelStates(ApiModel):
    """States of the model that is served and of the one to be served next."""

    active_model_state: Annotated[str, one_of(*MODEL_STATES)] = Field(
        default="Pending", description="State of the model that is served."
    )
    target_model_state: Annotated[str, one_of(*MODEL_STATES)] = Field(
        default="", description="State of the model to be served next."
    )


class FailureInfo(ApiModel):
    """The last failure to load the model."""

    location: str | None = Field(default=None, description="Pod and container it happened in.")
    reason: Annotated[str, one_of(*FAILURE_REASONS)] | None = Field(default=None, description="Kind of failure.")
    message: str | None = Field(default=None, description="Message of the container.")
    model_revision_name: str | None = Field(default=None, description="Revision that failed.")
    time: str | None = Field(default=None, description="When it happened.", json_schema_extra={"format": "date-time"})
    exit_code: Int32 | None = Field(default=None, description="Exit code of the container.")


class ModelCopies(ApiModel):
    """Numbers of pods with the model."""

    failed_copies: int = Field(default=0, description="Pods in which loading failed.")
    total_copies: int | None = Field(default=None, description="Pods that serve the model.")


class ModelStatus(ApiModel):
    """The status of the model."""

    transition_status: Annotated[str, one_of(*TRANSITION_STATUSES)] = Field(
        default="UpToDate", description="Whether the specified model is served, is being loaded, or cannot be loaded."
    )
    states: ModelStates | None = None
    last_failure_info: FailureInfo | None = None
    copies: ModelCopies | None = None


class CanaryStatus(ApiModel):
    """The status of one canary predictor."""

    name: str | None = Field(default=None, description="Name of the canary's predictor.")
    ready: bool | None = Field(default=None, description="Whether the canary is ready.")
    traffic_percent: Int32 | None = Field(default=None, description="Share of the traffic, in per cent.")
    model_status: ModelStatus | None = None


class InferenceServiceStatus(ApiModel):
    """The observed state of the service."""

    observed_generation: Int64 | None = Field(default=None, description="Generation that this status is for.")
    conditions: list[Condition] = Field(default=[], description="Conditions of the service.")
    url: str | None = Field(default=None, description="URL from outside the cluster.")
    address: Addressable | None = None
    annotations: dict[str, str] | None = Field(default=None, description="Accepted for compatibility; not used.")
    components: dict[str, ComponentStatus] | None = Field(
        default=None, description="State of each component, by its name."
    )
    model_status: ModelStatus | None = None
    canary_statuses: list[CanaryStatus] | None = Field(default=None, description="State of each canary.")
    deployment_mode: str | None = Field(default=None, description="Standard: plain Deployments.")
    serving_runtime_name: str | None = Field(default=None, description="ServingRuntime in use.")
    cluster_serving_runtime_name: str | None = Field(default=None, description="ClusterServingRuntime in use.")


class InferenceService(ApiModel):
    """One model endpoint: a predictor, and optionally a transformer and an explainer around it."""

    api_version: str = API_VERSION
    kind: str = KIND
    metadata: ObjectMeta = ObjectMeta()
    spec: InferenceServiceSpec
    status: InferenceServiceStatus = InferenceServiceStatus()
