"""The server's own Prometheus metrics, and those of its models' queues."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from data_plane.batching.metrics import BatchMetricsRegistry

_TYPE = re.compile(rb"^# TYPE (\S+)", re.MULTILINE)
_NAME = re.compile(rb"(?:# (?:HELP|TYPE) )?([a-zA-Z_:][a-zA-Z0-9_:]*)")  # at the beginning of a line
_SUFFIX = re.compile(rb"_(total|created|bucket|count|sum)\Z")  # of a counter or a histogram
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


@dataclass(slots=True)
class InFlight:
    """How many requests to models have no answer yet."""

    requests: int = 0


class _Memory(Collector):
    """The resident memory of this process and of those that it has started, read when it is asked for."""

    def collect(self) -> Iterable[GaugeMetricFamily]:
        size = sum(map(_resident, _with_children(os.getpid())))
        text = "Memory of the server and its workers; what they share counts for each of them."
        return [GaugeMetricFamily("process_resident_memory_bytes", text, value=size)] if size else []


def _with_children(process: int) -> Iterator[int]:
    """Yield a process and all that descend from it; the process alone where the system does not say."""
    found = [process]
    for parent in found:
        yield parent
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, children.read_text().split())


def _resident(process: int) -> int:
    """Return the bytes that a process has in memory; 0 if it has ended, and on systems other than Linux."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


class ServerMetrics:
    """Counts and times requests by route, never by path: a path is the client's to choose."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.batches = BatchMetricsRegistry(self.registry)
        self.registry.register(_Memory())
        self.in_flight = InFlight()
        Gauge(
            "requests_in_flight",
            "Requests that have no answer yet, those in a queue included; probes and GET do not count.",
            registry=self.registry,
        ).set_function(lambda: self.in_flight.requests)
        self._requests = Counter(
            "http_requests", "Requests answered.", ["method", "route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "http_request_seconds",
            "Time from the request's first byte to the answer.",
            ["route"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._grpc_requests = Counter(
            "grpc_requests", "Calls answered over gRPC.", ["method", "code"], registry=self.registry
        )
        self._grpc_seconds = Histogram(
            "grpc_request_seconds",
            "Time from the call's message to the answer.",
            ["method"],
            buckets=_BUCKETS,
            registry=self.registry,
        )

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(route).observe(seconds)

    def observe_grpc(self, method: str, code: str, seconds: float) -> None:
        """Count one answered call; `code` is gRPC's name of its status."""
        self._grpc_requests.labels(method, code).inc()
        self._grpc_seconds.labels(method).observe(seconds)

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)


def without_clashes(text: bytes, own: bytes) -> tuple[bytes, set[str]]:
    """Return the metrics of `text` whose names are not among those of `own`, and the names of the others.

    Prometheus reads a metric once. Names clash as in a registry: a counter `x` is `x_total`, a histogram has `x_sum`.
    """
    taken = {_SUFFIX.sub(b"", name) for name in _TYPE.findall(own)}
    kept, clashes = [], set[str]()
    for line in text.split(b"\n"):
        found = _NAME.match(line)
        if found and (name := _SUFFIX.sub(b"", found[1])) in taken:
            clashes.add(name.decode())
        else:
            kept.append(line)
    return b"\n".join(kept), clashes
