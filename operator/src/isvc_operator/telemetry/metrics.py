"""The operator's Prometheus metrics. docs/operations.md lists them.

Counters and histograms count as things happen. Gauges, and the counter of watches, are computed from a snapshot when
Prometheus asks.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from isvc_operator import __version__
from isvc_operator.telemetry.snapshot import Phase, Result, ServiceCondition, Snapshot

_RECONCILE_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_REQUEST_SECONDS: Final = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The metrics of one operator."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._reconciles = Histogram(
            "isvc_operator_reconcile_duration_seconds",
            "Time that a reconcile of one service took, by its result.",
            ["result"],
            buckets=_RECONCILE_SECONDS,
            registry=self._registry,
        )
        for result in Result:
            self._reconciles.labels(result.value)
        self._retries = Counter(
            "isvc_operator_reconcile_retries", "Reconciles that failed and were queued again.", registry=self._registry
        )
        self._requests = Counter(
            "isvc_operator_api_requests",
            'Requests to the API server, by verb and HTTP status; the code "error" means no response.',
            ["verb", "code"],
            registry=self._registry,
        )
        self._request_seconds = Histogram(
            "isvc_operator_api_request_duration_seconds",
            "Time until the head of the API server's response, by verb.",
            ["verb"],
            buckets=_REQUEST_SECONDS,
            registry=self._registry,
        )
        self._refusals = Counter(
            "isvc_operator_api_requests_refused",
            "Requests that the API server has refused with 401 or 403, by verb and resource, and by who has refused "
            "them: authentication, authorization (RBAC), or admission (a quota, a policy, a namespace that ends).",
            ["verb", "resource", "by"],
            registry=self._registry,
        )
        self._restores = Counter(
            "isvc_operator_children_restored",
            "Children that were restored because others had changed or deleted them, by kind.",
            ["kind"],
            registry=self._registry,
        )
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def reconciled(self, result: Result, seconds: float) -> None:
        """Count a reconcile that ended; one that did not succeed is retried."""
        self._reconciles.labels(result.value).observe(seconds)
        if result is not Result.SUCCESS:
            self._retries.inc()

    def restored(self, kind: str) -> None:
        self._restores.labels(kind).inc()

    def requested(self, verb: str, code: str, seconds: float) -> None:
        self._requests.labels(verb, code).inc()
        self._request_seconds.labels(verb).observe(seconds)

    def refused(self, verb: str, resource: str, by: str) -> None:
        self._refusals.labels(verb, resource, by).inc()

    def exposition(self, snapshot: Snapshot) -> bytes:
        return generate_latest(self._registry) + snapshot_exposition(snapshot)


def snapshot_exposition(snapshot: Snapshot) -> bytes:
    """Return the metrics of a snapshot in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Collected(_families(snapshot)))
    return generate_latest(registry)


class _Collected(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def _families(snapshot: Snapshot) -> Iterator[Metric]:
    queue = snapshot.queue
    gauges = (
        ("queue_depth", "Services that wait for a reconcile.", queue.waiting),
        ("queue_oldest_seconds", "How long the service that has waited longest has waited.", queue.oldest),
        ("reconciles_running", "Reconciles in progress.", queue.running),
        ("reconcile_longest_running_seconds", "How long the longest reconcile in progress has taken.", queue.longest),
        ("children_contested", "Children that others change whenever they are restored.", snapshot.contested),
        ("api_pause_seconds", "How long requests wait, because the API server asks for it; 0 if not.", snapshot.pause),
        (
            "config_last_reload_successful",
            "1 if the present ConfigMap is in use, 0 if it cannot be used.",
            int(not snapshot.refused_config),
        ),
        ("leader", "1 in the replica that reconciles, 0 in one that stands by.", int(snapshot.leader)),
    )
    for name, text, value in gauges:
        yield GaugeMetricFamily(f"isvc_operator_{name}", text, value=value)
    retrying = GaugeMetricFamily(
        "isvc_operator_queue_retrying", "Services whose last reconcile failed, by its result.", labels=["result"]
    )
    for result in Result:
        if result is not Result.SUCCESS:
            retrying.add_metric([result.value], queue.retrying.get(result, 0))
    silent = GaugeMetricFamily(
        "isvc_operator_watch_silent_seconds", "Time since the watch heard from the API server.", labels=["resource"]
    )
    starts = CounterMetricFamily(
        "isvc_operator_watch_starts", "Watches opened; all but the first are restarts.", labels=["resource"]
    )
    longest: dict[str, float] = {}
    opened: Tally[str] = Tally()
    for watch in snapshot.watches:  # with several namespaces there are several of a kind
        longest[watch.resource] = max(longest.get(watch.resource, 0.0), watch.silent)
        opened[watch.resource] += watch.starts
    for resource in sorted(longest):
        silent.add_metric([resource], longest[resource])
        starts.add_metric([resource], opened[resource])
    services = GaugeMetricFamily("isvc_operator_services", "Services, by what their status says.", labels=["phase"])
    for phase in Phase:
        services.add_metric([phase.value], snapshot.services.get(phase, 0))
    conditions = GaugeMetricFamily(
        "isvc_operator_service_condition",
        "1 for the condition Ready of each service, and for what else its status tells.",
        labels=ServiceCondition._fields,
    )
    for condition in snapshot.conditions:
        conditions.add_metric(condition, 1)
    build = GaugeMetricFamily("isvc_operator_build_info", "The operator's version.", labels=["version"])
    build.add_metric([__version__], 1)
    yield from (retrying, silent, starts, services, conditions, build)
