"""Traces of reconciles with OpenTelemetry: off unless asked for, and imported only then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from isvc_operator.errors import ConfigError, OperatorError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

Attributes = Mapping[str, str | int]


class Tracer(Protocol):
    """Makes spans, which nest as the blocks do."""

    def span(self, name: str, attributes: Attributes | None = None) -> AbstractContextManager[Any]:
        """Return a span for the duration of a block; an exception that leaves the block is recorded in it."""


class NoTracer:
    """Traces are off."""

    def span(self, name: str, attributes: Attributes | None = None) -> AbstractContextManager[Any]:
        del name, attributes
        return nullcontext()


class OpenTelemetryTracer:
    """Spans of an OpenTelemetry provider."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry.trace import Status, StatusCode

        self._tracer = provider.get_tracer("isvc_operator")
        self._failed = Status(StatusCode.ERROR)

    @contextmanager
    def span(self, name: str, attributes: Attributes | None = None) -> Iterator[Any]:
        """Yield a span, the child of the one around it. Of an unexpected error its text is not recorded, which may
        quote a value of a Secret.
        """
        with self._tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except Exception as error:
                recorded = error if isinstance(error, OperatorError) else RuntimeError(type(error).__name__)
                span.record_exception(recorded)
                span.set_status(self._failed)
                raise


@contextmanager
def otlp_tracer() -> Iterator[Tracer]:
    """Yield a tracer that sends spans over OTLP, and flush it at the end; raises ConfigError without the packages.

    OpenTelemetry's own environment variables name the collector, headers, the sampler and the service.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigError(
            f"traces need OpenTelemetry ({error}); install isvc-operator[operator,tracing], or set TRACES=none"
        ) from error
    provider = TracerProvider(resource=Resource.create({"service.name": "isvc-operator"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield OpenTelemetryTracer(provider)
    finally:
        provider.shutdown()
