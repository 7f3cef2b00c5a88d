"""The traces that a collector gets from a running operator."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.integration.operator_core.conftest import RUNTIME
from tests.support.apiserver import ApiServer, Call
from tests.support.namespace import Namespace
from tests.support.operator_process import OPERATOR, operator
from tests.support.waiting import eventually


class Collector(http.server.ThreadingHTTPServer):
    """Keeps the spans that are sent to it over OTLP and HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.spans: list[Span] = []

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]


class _Receiver(http.server.BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        sent = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
        for resource in sent.resource_spans:
            for scope in resource.scope_spans:
                self.server.spans.extend(scope.spans)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
        yield server
        server.shutdown()
        thread.join()


def test_a_reconcile_is_a_trace_with_its_steps_and_the_requests_of_each(
    apiserver: ApiServer, namespace: Namespace, collector: Collector, tmp_path: Path
) -> None:
    apiserver.kubectl("apply", f"--filename={RUNTIME}")
    since = apiserver.position()
    with operator(apiserver, tmp_path / "operator.log", "--traces=otlp", f"--namespace={namespace.name}"):
        namespace.apply_story()
        eventually(lambda: recorded_events(apiserver, namespace, since), "the last request of the reconcile was made")
    # What it has not sent yet is sent when it stops.

    (written,) = collector.named(
        f"patch /apis/serving.kserve.io/v1beta1/namespaces/{namespace.name}/inferenceservices/torchserve/status"
    )
    trace = {span.span_id: span for span in collector.spans if span.trace_id == written.trace_id}
    (whole,) = [span for span in trace.values() if not span.parent_span_id]
    steps = {span.span_id: span.name for span in trace.values() if span.parent_span_id == whole.span_id}
    requests = {
        (steps[span.parent_span_id], span.name.split()[0]) for span in trace.values() if span.parent_span_id in steps
    }

    assert {item.key: item.value.string_value for item in whole.attributes} == {
        "k8s.namespace.name": namespace.name,
        "isvc.name": "torchserve",
    }
    assert sorted(steps.values()) == ["apply", "gather", "observe", "render", "resolve", "write"]
    assert requests == {("apply", "patch"), ("write", "patch"), ("write", "create")}


def recorded_events(server: ApiServer, namespace: Namespace, since: int) -> list[Call]:
    calls = server.calls(OPERATOR, since)
    return [call for call in calls if (call.resource, call.namespace) == ("events", namespace.name)]
