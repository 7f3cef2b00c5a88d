"""Who sets the number of a component's pods, and by what."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.component import Autoscaler, Query, ResourceTarget, Scaling
from isvc_operator.resolve.requested import AutoscalerClass
from tests.support.builders import a_resolved, a_service

CPU = ResourceTarget("cpu", 80)
NO_ROOM = "no autoscaler is made, as maxReplicas is not above minReplicas"
INSTEAD = "the pods are scaled by cpu, at 80 % of what they request"


def scaling_of(scaler: str | None = None, config: OperatorConfig | None = None, **predictor: Any) -> Scaling:
    annotations = {"serving.kserve.io/autoscalerClass": scaler} if scaler else {}
    return a_resolved(a_service(predictor=predictor, annotations=annotations), config=config).predictor.scaling


def scaler_of(*arguments: Any, **fields: Any) -> Autoscaler:
    autoscaler = scaling_of(*arguments, **fields).autoscaler
    assert autoscaler is not None
    return autoscaler


def ignored(*arguments: Any, **fields: Any) -> tuple[str, ...]:
    return scaling_of(*arguments, **fields).ignored


# --- a number of pods that the user sets -------------------------------------------------------------------


@pytest.mark.parametrize("scaler", [None, "hpa", "none", "keda"])
@pytest.mark.parametrize(("minimum", "replicas"), [(None, None), (1, 1), (3, 3)])
def test_without_room_to_scale_the_number_is_the_users(
    scaler: str | None, minimum: int | None, replicas: int | None
) -> None:
    assert scaling_of(scaler, minReplicas=minimum) == Scaling(replicas)
    assert scaling_of(scaler, minReplicas=minimum, maxReplicas=minimum or 0) == Scaling(replicas)


def test_without_an_autoscaler_the_number_is_the_users_and_the_largest_is_named() -> None:
    assert scaling_of("none", minReplicas=2, maxReplicas=4) == Scaling(
        2, ignored=("spec.predictor.maxReplicas (autoscalerClass none: no autoscaler is made)",)
    )


def test_an_autoscaler_of_the_users_own_sets_the_number() -> None:
    left = "(autoscalerClass external leaves the number of pods to your own autoscaler)"

    assert scaling_of("external", minReplicas=2, maxReplicas=4, scaleTarget=50) == Scaling(
        ignored=tuple(f"spec.predictor.{name} {left}" for name in ("minReplicas", "maxReplicas", "scaleTarget"))
    )


@pytest.mark.parametrize("scaler", [None, "none"])
def test_one_pod_is_kept_where_nothing_can_scale_to_zero(scaler: str | None) -> None:
    assert scaling_of(scaler, minReplicas=0) == Scaling(
        1,
        ignored=(
            "spec.predictor.minReplicas: 0 (one pod is kept; KEDA scales to zero: annotation autoscalerClass: keda)",
        ),
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [("scaleTarget", 5), ("scaleMetric", "cpu"), ("scaleMetricType", "Utilization"), ("autoScaling", {})],
)
def test_how_to_scale_is_named_where_nothing_scales(field: str, value: Any) -> None:
    assert ignored(**{field: value}) == (f"spec.predictor.{field} ({NO_ROOM})",)


# --- a HorizontalPodAutoscaler -----------------------------------------------------------------------------


@pytest.mark.parametrize("scaler", [None, "hpa", "kpa"])
@pytest.mark.parametrize(("minimum", "least"), [(None, 1), (1, 1), (2, 2)])
def test_room_to_scale_makes_a_horizontal_pod_autoscaler_by_cpu(
    scaler: str | None, minimum: int | None, least: int
) -> None:
    assert scaling_of(scaler, minReplicas=minimum, maxReplicas=4) == Scaling(
        autoscaler=Autoscaler(AutoscalerClass.HPA, least, 4, (CPU,))
    )


def test_a_transformer_is_scaled_by_itself() -> None:
    transformer = {"containers": [{"name": "c", "image": "i"}], "maxReplicas": 2, "minReplicas": 0}
    resolved = a_resolved(a_service(spec={"transformer": transformer}))

    assert resolved.predictor.scaling == Scaling()
    assert resolved.transformer is not None
    assert resolved.transformer.scaling.autoscaler == Autoscaler(AutoscalerClass.HPA, 1, 2, (CPU,))
    assert [text.partition(" ")[0] for text in resolved.transformer.scaling.ignored] == [
        "spec.transformer.minReplicas:"
    ]


SHORT = {
    "a target": ({"scaleTarget": 50}, ResourceTarget("cpu", 50), ()),
    "cpu without a target": ({"scaleMetric": "cpu"}, CPU, ()),
    "a type that is said anyway": (
        {"scaleTarget": 50, "scaleMetricType": "Utilization"},
        ResourceTarget("cpu", 50),
        (),
    ),
    "memory": ({"scaleMetric": "memory", "scaleTarget": 150}, ResourceTarget("memory", 150), ()),
    "memory without a target": (
        {"scaleMetric": "memory"},
        CPU,
        (f"spec.predictor.scaleMetric: memory (without scaleTarget {INSTEAD}; give a percentage)",),
    ),
    "requests per second": (
        {"scaleMetric": "rps", "scaleTarget": 10},
        CPU,
        (
            f"spec.predictor.scaleMetric: rps ({INSTEAD}; KEDA scales by requests: see docs/autoscaling.md)",
            "spec.predictor.scaleTarget (it is for rps)",
        ),
    ),
    "a value": (
        {"scaleTarget": 50, "scaleMetricType": "AverageValue"},
        ResourceTarget("cpu", 50),
        ("spec.predictor.scaleMetricType: AverageValue (scaleTarget is a percentage; autoScaling.metrics has values)",),
    ),
}


@pytest.mark.parametrize(("fields", "metric", "said"), SHORT.values(), ids=SHORT.keys())
@pytest.mark.parametrize("scaler", ["hpa", "keda"])
def test_the_short_way_to_write_a_metric(
    scaler: str, fields: dict[str, Any], metric: ResourceTarget, said: tuple[str, ...]
) -> None:
    scaling = scaling_of(scaler, maxReplicas=4, **fields)

    assert scaling.autoscaler is not None
    assert (scaling.autoscaler.metrics, scaling.ignored) == ((metric,), said)


def resource(name: str, **target: Any) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": name, "target": target}}


RESOURCES = {
    "cpu": (resource("cpu", type="Utilization", averageUtilization=60), ResourceTarget("cpu", 60)),
    "cpu without a target": (resource("cpu", type="Utilization"), CPU),
    "cpu as a quantity": (
        resource("cpu", type="AverageValue", averageValue="500m"),
        ResourceTarget("cpu", average="500m"),
    ),
    "memory": (resource("memory", type="Utilization", averageUtilization=70), ResourceTarget("memory", 70)),
    "memory as a quantity": (
        resource("memory", type="AverageValue", averageValue="2Gi"),
        ResourceTarget("memory", average="2Gi"),
    ),
}


@pytest.mark.parametrize(("metric", "expected"), RESOURCES.values(), ids=RESOURCES.keys())
@pytest.mark.parametrize("scaler", ["hpa", "keda"])
def test_a_resource_metric(scaler: str, metric: dict[str, Any], expected: ResourceTarget) -> None:
    scaling = scaling_of(scaler, maxReplicas=4, autoScaling={"metrics": [metric]})

    assert scaling.autoscaler is not None
    assert (scaling.autoscaler.metrics, scaling.ignored) == ((expected,), ())


@pytest.mark.parametrize("target", [{"type": "AverageValue"}, {"type": "Value", "value": 5}])
@pytest.mark.parametrize("name", ["cpu", "memory"])
def test_a_resource_without_a_target_that_can_be_used_is_named(name: str, target: dict[str, Any]) -> None:
    scaling = scaling_of(maxReplicas=4, autoScaling={"metrics": [resource(name, **target)]})

    assert scaling.autoscaler is not None
    assert scaling.autoscaler.metrics == (CPU,)
    assert scaling.ignored == (
        f"spec.predictor.autoScaling.metrics[0].resource.target ({name} has no target that can be used; give "
        "averageUtilization or averageValue)",
    )


EXTERNAL = {
    "type": "External",
    "external": {
        "metric": {"backend": "prometheus", "serverAddress": "http://prom:9090", "query": "sum(q)"},
        "target": {"type": "Value", "value": "2"},
    },
}


def test_a_query_is_named_where_kubernetes_scales() -> None:
    scaling = scaling_of(maxReplicas=4, autoScaling={"metrics": [EXTERNAL, resource("cpu", averageUtilization=60)]})

    assert scaling.autoscaler is not None
    assert scaling.autoscaler.metrics == (ResourceTarget("cpu", 60),)
    assert scaling.ignored == (
        "spec.predictor.autoScaling.metrics[0] (a HorizontalPodAutoscaler reads cpu and memory; KEDA runs queries: "
        "annotation autoscalerClass: keda)",
    )


def test_the_short_way_is_named_beside_the_long_one() -> None:
    assert ignored(maxReplicas=4, scaleTarget=5, autoScaling={"metrics": [resource("cpu")]}) == (
        "spec.predictor.scaleTarget (autoScaling.metrics is used)",
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"scaleTarget": 0}, "spec.predictor.scaleTarget is 0; write a percentage above 0, or leave it out"),
        (
            {"autoScaling": {"metrics": [resource("cpu", averageUtilization=-1)]}},
            r"spec.predictor.autoScaling.metrics\[0\].resource.target.averageUtilization is -1; write a percentage",
        ),
        *(
            (
                {"autoScaling": {"metrics": [resource("memory", averageValue=value)]}},
                rf"metrics\[0\].resource.target.averageValue is {value}; write a quantity above 0, such as 500m or 4Gi",
            )
            for value in (0, "-5Gi", "0")
        ),
    ],
)
def test_a_target_that_the_api_server_would_refuse_is_an_error(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpec, match=message):
        scaling_of(maxReplicas=4, **fields)


# --- pace --------------------------------------------------------------------------------------------------


WINDOWS = parse_config(
    {"autoscaler": '{"scaleUpStabilizationWindowSeconds": "0", "scaleDownStabilizationWindowSeconds": "300"}'}
)


@pytest.mark.parametrize("scaler", ["hpa", "keda"])
def test_the_users_behavior_stands_over_the_administrators(scaler: str) -> None:
    pods = {"type": "Pods", "value": 1, "periodSeconds": 60}
    own = {"scaleDown": {"stabilizationWindowSeconds": 5, "selectPolicy": "Min", "policies": [pods]}}
    without = {"scaleDown": {"stabilizationWindowSeconds": 5, "policies": [], "policy": "Max"}, "scaledown": {}}

    assert scaler_of(scaler, maxReplicas=4).behavior == {}
    assert scaler_of(scaler, maxReplicas=4, autoScaling={"behavior": own}).behavior == own
    assert scaler_of(scaler, maxReplicas=4, autoScaling={"behavior": without}).behavior == {
        "scaleDown": {"stabilizationWindowSeconds": 5}
    }
    assert scaler_of(scaler, WINDOWS, maxReplicas=4, autoScaling={"behavior": own}).behavior == {
        "scaleUp": {"stabilizationWindowSeconds": 0},
        **own,
    }


# --- KEDA --------------------------------------------------------------------------------------------------


def keda(*metrics: dict[str, Any], **fields: Any) -> Scaling:
    return scaling_of("keda", autoScaling={"metrics": list(metrics)}, **{"maxReplicas": 4, **fields})


def with_(part: dict[str, Any], **external: Any) -> dict[str, Any]:
    return {**EXTERNAL, "external": {**EXTERNAL["external"], **external}, **part}  # type: ignore[dict-item]


PROMETHEUS = (("serverAddress", "http://prom:9090"), ("query", "sum(q)"), ("threshold", "2"))


def test_a_query_of_prometheus() -> None:
    assert keda(EXTERNAL, minReplicas=0) == Scaling(
        autoscaler=Autoscaler(AutoscalerClass.KEDA, 0, 4, (Query("prometheus", PROMETHEUS),))
    )


def test_a_query_with_a_login_and_a_namespace() -> None:
    metric = {**EXTERNAL["external"]["metric"], "namespace": "team"}  # type: ignore[index]
    login = {"authenticationRef": {"name": "prom-login"}, "authModes": "bearer"}

    scaling = keda(with_({}, metric=metric, authenticationRef=login))

    assert scaling.autoscaler is not None
    more = (("namespace", "team"), ("authModes", "bearer"))
    assert scaling.autoscaler.metrics == (Query("prometheus", (*PROMETHEUS, *more), "prom-login"),)


def test_a_query_of_graphite_gets_the_range_that_keda_needs() -> None:
    metric = {"backend": "graphite", "serverAddress": "http://g", "query": "q", "namespace": "team"}

    scaling = keda(with_({}, metric=metric))

    assert scaling.autoscaler is not None
    read = (("serverAddress", "http://g"), ("query", "q"), ("threshold", "2"), ("queryTime", "-1Minutes"))
    assert scaling.autoscaler.metrics == (Query("graphite", read),)
    assert scaling.ignored == (
        "spec.predictor.autoScaling.metrics[0].external.metric.namespace (graphite has no namespaces)",
    )


@pytest.mark.parametrize(
    ("metric", "target", "message"),
    [
        (
            {"serverAddress": "http://p"},
            {"value": 1},
            "external.metric.query is not set; a metric of this type needs it",
        ),
        ({"query": "q"}, {"value": 1}, "external.metric.serverAddress is not set"),
        ({"serverAddress": "http://p", "query": "q"}, {}, "external.target.value is not set; write the value"),
    ],
)
def test_a_query_that_keda_could_not_run_is_an_error(
    metric: dict[str, Any], target: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidSpec, match=message):
        keda(with_({}, metric=metric, target=target))


def test_a_metric_of_the_pods_is_read_from_the_scaler_of_opentelemetry() -> None:
    pods = {
        "type": "PodMetric",
        "podmetric": {
            "metric": {"backend": "opentelemetry", "query": "requests", "operationOverTime": "avg"},
            "target": {"type": "Value", "value": "4"},
        },
    }

    scaling = keda(pods)

    assert scaling.autoscaler is not None
    address = "keda-otel-scaler.keda.svc:4318"
    assert scaling.autoscaler.metrics == (
        Query(
            "external",
            (
                ("scalerAddress", address),
                ("metricQuery", 'sum(requests{namespace="models", deployment="torchserve-predictor"})'),
                ("targetValue", "4"),
                ("operationOverTime", "avg"),
            ),
        ),
    )
    assert scaling.ignored == (
        "spec.predictor.autoScaling.metrics[0].podmetric.metric.metricNames (no OpenTelemetryCollector is made; one of "
        f"your own has to send the pods' metrics to {address})",
    )


CANNOT_WAKE = (
    "spec.predictor.minReplicas: 0 (one pod is kept: cpu and memory do not tell when to start the first pod; add a "
    "metric of type External)"
)


def test_keda_keeps_one_pod_where_it_could_not_start_the_first_one_again() -> None:
    assert scaling_of("keda", minReplicas=0, maxReplicas=4) == Scaling(
        autoscaler=Autoscaler(AutoscalerClass.KEDA, 1, 4, (CPU,)), ignored=(CANNOT_WAKE,)
    )


def test_keda_may_switch_a_single_pod_on_and_off() -> None:
    assert keda(EXTERNAL, minReplicas=0, maxReplicas=0).autoscaler == Autoscaler(
        AutoscalerClass.KEDA, 0, 1, (Query("prometheus", PROMETHEUS),)
    )
    assert scaling_of("keda", minReplicas=0) == Scaling(1, ignored=(CANNOT_WAKE,))


def test_without_keda_the_number_is_the_users_and_what_to_do_is_said() -> None:
    service = a_service(
        predictor={"minReplicas": 2, "maxReplicas": 4}, annotations={"serving.kserve.io/autoscalerClass": "keda"}
    )
    resolved = a_resolved(service, keda=False)

    assert resolved.waits_for_keda
    assert resolved.predictor.scaling.replicas == 2
    assert resolved.predictor.scaling.ignored == (
        "annotation serving.kserve.io/autoscalerClass: keda (the cluster has no KEDA, so no ScaledObject is made and "
        "the number of pods stays as it is; install KEDA, or write hpa)",
    )


# --- what is written and not read ---------------------------------------------------------------------------


def test_a_part_of_another_type_is_named() -> None:
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"averageUtilization": 60}},
        "external": {"metric": {"serverAddress": "http://prometheus", "query": "q"}, "target": {"value": 1}},
    }

    assert ignored(maxReplicas=3, autoScaling={"metrics": [metric]}) == (
        "spec.predictor.autoScaling.metrics[0].external (type is Resource)",
    )


def test_values_and_a_type_beside_the_value_that_is_used_are_named() -> None:
    target = {"type": "Value", "value": 1, "averageValue": "2Gi", "averageUtilization": 60}
    metric = {"type": "Resource", "resource": {"name": "memory", "target": target}}
    at = "spec.predictor.autoScaling.metrics[0].resource.target"

    assert ignored(maxReplicas=3, autoScaling={"metrics": [metric]}) == (
        f"{at}.value (averageValue is used)",
        f"{at}.averageUtilization (averageValue is used)",
        f"{at}.type: Value (averageValue is used)",
    )


def test_a_querys_value_is_for_each_pod_whatever_its_type() -> None:
    source = {"serverAddress": "http://prometheus", "query": "q"}
    metric = {"type": "External", "external": {"metric": source, "target": {"type": "AverageValue", "value": 1}}}

    assert ignored("keda", maxReplicas=3, autoScaling={"metrics": [metric]}) == ()
