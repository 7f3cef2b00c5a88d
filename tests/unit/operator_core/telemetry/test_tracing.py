"""Traces of reconciles, as an exporter gets them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from aiohttp import ClientError
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from isvc_operator.errors import ConfigError, InvalidSpec
from isvc_operator.kube.calls import ApiCalls
from isvc_operator.kube.errors import KubeError, ObjectNotFound
from isvc_operator.kube.requests import ApiRequest
from isvc_operator.telemetry.tracing import OpenTelemetryTracer, Tracer, otlp_tracer
from tests.support.fakes import Seconds
from tests.support.stub_session import StubSession, api_of


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exporter: InMemorySpanExporter) -> Iterator[Tracer]:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield OpenTelemetryTracer(provider)
    provider.shutdown()


async def test_each_request_is_a_span_of_its_step(exporter: InMemorySpanExporter, tracer: Tracer) -> None:
    counted: list[tuple[str, str, float]] = []
    calls = ApiCalls(lambda *of: counted.append(of), tracer=tracer, clock=Seconds())
    missing, lost = api_of(StubSession(404), calls=calls), api_of(StubSession(error=ClientError()), calls=calls)

    with tracer.span("apply"):
        with pytest.raises(ObjectNotFound):
            await missing.send(ApiRequest("PATCH", "/api/v1/namespaces/a/services/b"))
        with pytest.raises(KubeError):
            await lost.send(ApiRequest("GET", "/api/v1/pods"))

    refused, unreached, step = exporter.get_finished_spans()
    assert [span.name for span in (refused, unreached, step)] == [
        "patch /api/v1/namespaces/a/services/b",
        "list /api/v1/pods",
        "apply",
    ]
    assert dict(refused.attributes or {}) == {
        "http.request.method": "PATCH",
        "url.path": "/api/v1/namespaces/a/services/b",
        "http.response.status_code": 404,
    }
    assert [event.name for event in unreached.events] == ["exception"]
    assert {span.parent.span_id for span in (refused, unreached) if span.parent} == {step.context.span_id}
    assert counted == [("patch", "404", 0.0), ("list", "error", 0.0)]


@pytest.mark.parametrize(
    ("error", "recorded"),
    [
        (InvalidSpec("spec.predictor is missing"), "spec.predictor is missing"),
        (ValueError("Invalid header value b'Geheim42'"), "ValueError"),
    ],
)
def test_of_an_unexpected_error_a_span_has_no_text(
    exporter: InMemorySpanExporter, tracer: Tracer, error: Exception, recorded: str
) -> None:
    with pytest.raises(type(error)), tracer.span("apply"):
        raise error

    (span,) = exporter.get_finished_spans()
    assert [(event.attributes or {})["exception.message"] for event in span.events] == [recorded]
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert "Geheim42" not in span.to_json()


def test_without_the_packages_traces_cannot_be_turned_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)

    with pytest.raises(ConfigError, match=r"install isvc-operator\[operator,tracing\]"), otlp_tracer():
        pass


@pytest.mark.process
def test_opentelemetry_is_imported_only_if_traces_are_on() -> None:
    program = (
        "import sys, isvc_operator.handlers.operator, isvc_operator.telemetry.tracing; "
        "print([name for name in sys.modules if name.startswith('opentelemetry.sdk')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
