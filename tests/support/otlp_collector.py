"""A collector of OpenTelemetry's spans, which keeps what it is sent."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.object_stores.proxy import Answer, Request, proxy


@dataclass
class Collector:
    """Takes spans over OTLP and HTTP; ``endpoint`` is the value of OTEL_EXPORTER_OTLP_ENDPOINT."""

    endpoint: str = ""
    spans: list[Span] = field(default_factory=list)

    def trace_with(self, name: str) -> list[Span]:
        """The spans of the first trace with a span of this name, once its root has come; it comes last."""
        found = next((span.trace_id for span in self.spans if span.name == name), None)
        trace = [span for span in self.spans if span.trace_id == found]
        return trace if any(not span.parent_span_id for span in trace) else []


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """A collector for the duration of the block."""
    collector = Collector()

    def take(request: Request) -> Answer:
        for resource in ExportTraceServiceRequest.FromString(request.body).resource_spans:
            for scope in resource.scope_spans:
                collector.spans.extend(scope.spans)
        return Answer(200)

    with proxy(None, take) as server:
        collector.endpoint = server.url
        yield collector
