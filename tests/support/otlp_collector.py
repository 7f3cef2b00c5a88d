"""A collector of OpenTelemetry's spans, which keeps what it is sent."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector(http.server.ThreadingHTTPServer):
    """Takes spans over OTLP and HTTP, on loopback."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.spans: list[Span] = []

    @property
    def endpoint(self) -> str:
        """The value of OTEL_EXPORTER_OTLP_ENDPOINT."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def trace_with(self, name: str) -> list[Span]:
        """The spans of the first trace with a span of this name, once its root has come; it comes last."""
        found = next((span.trace_id for span in self.spans if span.name == name), None)
        trace = [span for span in self.spans if span.trace_id == found]
        return trace if any(not span.parent_span_id for span in trace) else []


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


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """A collector for the duration of the block."""
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
