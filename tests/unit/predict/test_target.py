"""Where a service answers: what its status, its Ingress, its Gateway and the flags say."""

from __future__ import annotations

from typing import Any

import pytest

from isvc.inference.protocol import InferenceProtocol
from isvc.predict import target
from isvc.predict.errors import PredictFailed, UnusableRequest
from isvc.predict.target import Target
from isvc.view.source import Related

HOST = "bert.models.example.com"


def service(url: str | None = f"http://{HOST}", **spec: Any) -> dict[str, Any]:
    status = {"url": url} if url else {"conditions": [{"type": "Ready", "status": "False", "message": "no claim"}]}
    return {"metadata": {"name": "bert", "namespace": "models"}, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("address", "url", "expected"),
    [
        (None, f"http://{HOST}", Target(f"http://{HOST}")),
        ("10.0.0.7", f"http://{HOST}", Target("http://10.0.0.7:80", HOST)),
        ("10.0.0.7:8080", f"http://{HOST}", Target("http://10.0.0.7:8080", HOST)),
        ("fd00::7", f"http://{HOST}", Target("http://[fd00::7]:80", HOST)),
        ("lb.example.net", f"https://{HOST}", Target("https://lb.example.net:443", HOST)),
        ("10.0.0.7", f"http://{HOST}:8080", Target("http://10.0.0.7:8080", f"{HOST}:8080")),
        (
            "10.0.0.7",
            "http://ml.example.com/serving/bert/",
            Target("http://10.0.0.7:80/serving/bert", "ml.example.com"),
        ),
    ],
    ids=["its own host", "an address", "with a port", "IPv6", "https", "a port in the URL", "a path"],
)
def test_a_service_answers_at_its_url_by_way_of_an_address(address: str | None, url: str, expected: Target) -> None:
    assert target.of_service(service(url), address) == expected


@pytest.mark.parametrize("address", ["http://h:80", "http:/h", "h/x", "h:80/x", "h:port", "h:99999"])
def test_an_address_is_no_url(address: str) -> None:
    with pytest.raises(UnusableRequest, match=f"--address {address}: write HOST or HOST:PORT, without a scheme"):
        target.of_service(service(), address)


def test_a_service_without_a_url_says_what_its_status_says() -> None:
    with pytest.raises(PredictFailed, match="InferenceService bert has no URL yet: no claim"):
        target.of_service(service(None), None)
    with pytest.raises(PredictFailed, match="isvc doctor"):
        target.of_service({"metadata": {"name": "bert"}}, None)


@pytest.mark.parametrize(
    ("ready", "said"),
    [
        ({"status": "True"}, ""),
        ({"status": "False", "reason": "ServerFailed", "message": "no licence.\nLast log lines:\n| more"},
         "bert is Failed: ServerFailed: no licence; isvc diagnose bert -n models says more"),
        ({"status": "Unknown", "reason": "Scheduling", "message": "no node"},
         "bert is Starting: Scheduling: no node; isvc diagnose bert -n models says more"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_service_is_said_in_a_line(ready: dict[str, str], said: str) -> None:
    found = service() | {"status": {"conditions": [{"type": "Ready", **ready}]}}

    assert target.trouble_of(Related(service=found)) == said


def pod(component: str, ready: str, **metadata: Any) -> dict[str, Any]:
    labels = {"component": component}
    return {
        "metadata": {"name": f"{component}-{ready}", "labels": labels, **metadata},
        "spec": {"containers": []},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


@pytest.mark.parametrize(
    ("pods", "explains"),
    [
        ([pod("predictor", "True"), pod("predictor", "False")], False),
        ([pod("predictor", "True", deletionTimestamp="2026-01-01T00:00:00Z"), pod("predictor", "False")], True),
        ([pod("transformer", "True"), pod("predictor", "False")], True),
        ([], True),
    ],
    ids=["an old pod answers", "it ends", "the transformer alone is ready", "pods are not known"],
)
def test_a_pod_that_gets_no_requests_does_not_explain_the_answers_of_others(
    pods: list[dict[str, Any]], explains: bool
) -> None:
    failed = {"type": "Ready", "status": "False", "reason": "ServerFailed", "message": "no licence"}
    found = service() | {"status": {"conditions": [failed]}}

    said = target.trouble_of(Related(service=found, pods=pods))

    assert said == ("bert is Failed: ServerFailed: no licence; isvc diagnose bert -n models says more" * explains)


@pytest.mark.parametrize(
    ("url", "host", "expected"),
    [
        ("http://127.0.0.1:8080", None, Target("http://127.0.0.1:8080", HOST)),
        ("localhost:8080/", None, Target("http://localhost:8080", HOST)),
        ("http://[::1]:8080", None, Target("http://[::1]:8080", HOST)),
        ("http://127.0.0.1:8080", "other", Target("http://127.0.0.1:8080", "other")),
        ("http://127.0.0.1:8080/models/bert", None, Target("http://127.0.0.1:8080/models/bert")),
        ("https://bert.example.org", None, Target("https://bert.example.org")),
    ],
    ids=["an ingress", "without a scheme", "IPv6", "a host", "a path", "a name"],
)
def test_an_ingress_that_is_named_gets_the_services_host(url: str, host: str | None, expected: Target) -> None:
    assert target.of_url(url, "bert", "models", host) == expected


@pytest.mark.parametrize(
    "url", ["ftp://a", "http://", "http:/a", "https//a", "http://a:port", "http://a:99999", "http://[::1"]
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(UnusableRequest, match="--url"):
        target.of_url(url, "bert", "models", None)


def test_a_gateway_publishes_its_address_with_the_port_of_the_scheme() -> None:
    route = {"metadata": {"namespace": "models"}, "spec": {"parentRefs": [{"name": "gateway"}]}}
    listeners = [{"protocol": "HTTPS", "port": 8443}, {"protocol": "HTTP", "port": 8080}]
    gateway = {"spec": {"listeners": listeners}, "status": {"addresses": [{"value": "10.0.0.7"}]}}

    assert target.gateway_of(route) == ("models", "gateway")
    assert target.address_of_gateway(gateway, "https") == "10.0.0.7:8443"
    assert target.address_of_gateway({**gateway, "status": {}}, "https") is None


def test_a_services_port_is_found_in_the_pod_by_number_and_by_name() -> None:
    pod = {"spec": {"containers": [{"ports": [{"name": "http", "containerPort": 8080}]}]}}

    assert target.target_port({"spec": {"ports": [{"port": 80, "targetPort": 9000}]}}, pod) == 9000
    assert target.target_port({"spec": {"ports": [{"port": 80, "targetPort": "http"}]}}, pod) == 8080
    assert target.target_port({"spec": {"ports": [{"port": 80, "targetPort": "other"}]}}, pod) is None


def test_a_pod_that_is_being_deleted_is_not_ready() -> None:
    conditions = {"conditions": [{"type": "Ready", "status": "True"}]}

    assert target.is_ready({"metadata": {}, "status": conditions})
    assert not target.is_ready({"metadata": {"deletionTimestamp": "now"}, "status": conditions})
    assert not target.is_ready({"metadata": {}, "status": {}})


def test_a_transformer_gets_the_requests() -> None:
    assert target.entry_of(service(predictor={}, transformer={"containers": []})) == "transformer"
    assert target.entry_of(service(predictor={})) == "predictor"


@pytest.mark.parametrize(
    ("spec", "protocol"),
    [
        ({"predictor": {"model": {"protocolVersion": "v2"}}}, InferenceProtocol.V2),
        ({"predictor": {"pytorch": {"protocolVersion": "v1"}}}, InferenceProtocol.V1),
        ({"predictor": {"model": {}}}, None),
        ({"predictor": {"model": {"protocolVersion": "grpc-v2"}}, "transformer": {"containers": []}}, None),
        ({"predictor": {"containers": [{"ports": [{"name": "http1"}, {"name": "grpc"}]}]}}, None),
    ],
    ids=["v2", "of the old form", "none", "behind a transformer", "both"],
)
def test_a_service_declares_its_protocol(spec: dict[str, Any], protocol: InferenceProtocol | None) -> None:
    assert target.declared_protocol(service(**spec)) is protocol


@pytest.mark.parametrize(
    "predictor",
    [{"model": {"protocolVersion": "grpc-v2"}}, {"containers": [{"ports": [{"name": "h2c"}]}]}],
    ids=["protocolVersion", "ports"],
)
def test_a_service_of_grpc_alone_is_said_so(predictor: dict[str, Any]) -> None:
    with pytest.raises(
        PredictFailed, match="InferenceService bert is served by gRPC, which this command does not speak"
    ):
        target.declared_protocol(service(predictor=predictor))
