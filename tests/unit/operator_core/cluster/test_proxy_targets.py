"""Where requests and readings of metrics go through the API server."""

from __future__ import annotations

from typing import Any

import pytest

from isvc.source.proxy_targets import ProxyTarget, answer_seconds, metrics_target, service_target
from tests.support.builders import a_ready_pod, a_service_body, the_children

POD = "torchserve-predictor-1-a"


def a_service_port(**fields: Any) -> dict[str, Any]:
    service = the_children()["Service"]
    return {**service, "spec": {**service["spec"], "ports": [fields]}}


@pytest.mark.parametrize(
    ("url", "proxied"),
    [
        ("http://torchserve-predictor.models.svc.cluster.local", "http:torchserve-predictor:80"),
        ("https://torchserve-predictor.models.svc.cluster.local:8443", "https:torchserve-predictor:8443"),
        ("", None),
        ("ftp://x", None),
        ("http://x:y", None),
        (None, None),
    ],
)
def test_a_service_is_reached_by_its_address(url: object, proxied: str | None) -> None:
    place = service_target(a_service_body(status={"address": {"url": url}}))

    assert (place.proxied if place else None) == proxied


@pytest.mark.parametrize(
    ("timeouts", "seconds"),
    [((), 30), ((90,), 95), ((90, 100), 105), ((3600,), 120), ((-1, "x", None), 30), ((10,), 30)],
)
def test_a_response_may_take_as_long_as_the_service_says(timeouts: tuple[Any, ...], seconds: float) -> None:
    components = ("predictor", "transformer", "explainer")
    service = a_service_body(spec={name: {"timeout": value} for name, value in zip(components, timeouts, strict=False)})

    assert answer_seconds(service) == seconds


@pytest.mark.parametrize(
    ("port", "place"),
    [
        ({"port": 80, "targetPort": 8080}, ProxyTarget(POD, 8080)),
        ({"port": 80, "targetPort": 8080, "appProtocol": "https"}, ProxyTarget(POD, 8080, "https")),
        ({"name": "h2c", "port": 80, "targetPort": 8081}, None),
        ({"port": 80, "targetPort": 8081, "appProtocol": "kubernetes.io/h2c"}, None),
        ({"port": 80, "targetPort": "http"}, None),
    ],
)
def test_metrics_are_on_the_port_for_http(port: dict[str, Any], place: ProxyTarget | None) -> None:
    assert metrics_target(a_ready_pod(), [a_service_port(**port)]) == place


def test_a_pod_of_another_component_has_no_metrics_there() -> None:
    assert metrics_target(a_ready_pod(app="isvc.other"), [a_service_port(port=80, targetPort=8080)]) is None
