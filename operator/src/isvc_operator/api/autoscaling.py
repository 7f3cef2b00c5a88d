"""How a component scales and rolls out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from isvc_operator.api.base import ApiModel, Int32, IntOrString, Texts, one_of
from isvc_operator.api.core_shapes import Quantity


class MetricTarget(ApiModel):
    """The target value of a metric."""

    type: Literal["Utilization", "Value", "AverageValue"] | None = Field(
        default=None, description="Which of the values below applies."
    )
    value: Quantity | None = Field(default=None, description="Value for all pods together.")
    average_value: Quantity | None = Field(default=None, description="Value per pod.")
    average_utilization: Int32 | None = Field(
        default=None, description="Percentage of the resources that the pods request."
    )


class ResourceMetric(ApiModel):
    """Scale by the resources that the pods use."""

    name: Literal["cpu", "memory"] = Field(description="Resource to scale by.")
    target: MetricTarget


class ExternalMetricSource(ApiModel):
    """A query of a metrics server."""

    backend: Literal["prometheus", "graphite"] | None = Field(default=None, description="Kind of server.")
    server_address: str | None = Field(default=None, description="URL of the server.")
    query: str | None = Field(default=None, description="Query to run.")
    namespace: str | None = Field(default=None, description="Namespace to query.")


class SecretReference(ApiModel):
    """A TriggerAuthentication by its name."""

    name: str = Field(description="Name of the TriggerAuthentication.")


class AuthenticationReference(ApiModel):
    """How to log in to the metrics server."""

    authentication_ref: SecretReference
    auth_modes: str | None = Field(default=None, description="Kinds of login, such as bearer or basic.")


class ExternalMetric(ApiModel):
    """Scale by a query of a metrics server."""

    metric: ExternalMetricSource
    authentication_ref: AuthenticationReference | None = None
    target: MetricTarget


class PodMetricSource(ApiModel):
    """A metric of the pods."""

    backend: Literal["opentelemetry"] | None = Field(default=None, description="How it is collected.")
    server_address: str | None = Field(default=None, description="Address of the collector.")
    metric_names: Texts | None = Field(default=None, description="Names of the metrics.")
    query: str | None = Field(default=None, description="Query over the metrics.")
    operation_over_time: str | None = Field(default=None, description="How values are aggregated over time.")


class PodMetric(ApiModel):
    """Scale by a metric of the pods."""

    metric: PodMetricSource
    target: MetricTarget


class MetricsSpec(ApiModel):
    """One metric to scale by."""

    type: Literal["Resource", "External", "PodMetric"] = Field(description="Which of the parts below applies.")
    resource: ResourceMetric | None = None
    external: ExternalMetric | None = None
    podmetric: PodMetric | None = None


class ScalingPolicy(ApiModel):
    """How many pods may be added or removed in a period."""

    type: Literal["Pods", "Percent"] = Field(description="What the value counts.")
    value: Annotated[Int32, Field(ge=1)] = Field(description="Pods, or a percentage of them.")
    period_seconds: Annotated[Int32, Field(ge=1, le=1800)] = Field(description="Length of the period.")


class ScalingRules(ApiModel):
    """Pace in one direction."""

    stabilization_window_seconds: Annotated[Int32, Field(ge=0, le=3600)] | None = Field(
        default=None, description="Seconds for which earlier recommendations count."
    )
    select_policy: Literal["Max", "Min", "Disabled"] | None = Field(
        default=None, description="Which of the policies applies; Disabled stops scaling in this direction."
    )
    policies: list[ScalingPolicy] | None = Field(default=None, description="Limits of the pace.")
    tolerance: Quantity | None = Field(
        default=None, description="Deviation from the target at which nothing changes; a feature of newer clusters."
    )


class Behavior(ApiModel):
    """Pace of scaling, as in a HorizontalPodAutoscaler (v2)."""

    scale_up: ScalingRules | None = None
    scale_down: ScalingRules | None = None


class AutoScaling(ApiModel):
    """Metrics and pace of scaling."""

    metrics: list[MetricsSpec] | None = Field(default=None, description="Metrics to scale by.")
    behavior: Behavior | None = None


class RollingUpdate(ApiModel):
    """How many pods change at a time."""

    max_surge: IntOrString | None = Field(default=None, description="Pods above the specified number.")
    max_unavailable: IntOrString | None = Field(default=None, description="Pods below the specified number.")


class DeploymentStrategy(ApiModel):
    """How pods are replaced by newer ones."""

    type: Annotated[
        Literal["RollingUpdate", "Recreate"] | None,
        BeforeValidator(lambda value: None if value == "" else value),
        one_of("RollingUpdate", "Recreate", ""),
    ] = Field(default=None, description="Method of replacement.")
    rolling_update: RollingUpdate | None = None
