"""The text that Prometheus reads."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from isvc_operator import __version__
from isvc_operator.telemetry.metrics import Metrics, snapshot_exposition
from isvc_operator.telemetry.snapshot import Phase, QueueState, Result, ServiceCondition, Snapshot, WatchState

STATE = Snapshot(
    running=100.0,
    leader=True,
    contested=6,
    queue=QueueState(
        waiting=3, oldest=2.5, running=2, longest=1.5, still=0.5, retrying={Result.REFUSED: 3, Result.ERROR: 1}
    ),
    watches=(
        WatchState("pods", "/api/v1/namespaces/a/pods", listed=True, silent=5.0, starts=2),
        WatchState("pods", "/api/v1/namespaces/b/pods", listed=True, silent=9.0, starts=1),
        WatchState("services", "/api/v1/namespaces/a/services", listed=True, silent=1.0, starts=1),
    ),
    services={Phase.READY: 5, Phase.FAILED: 1},
    conditions=(
        ServiceCondition("bank", "bert", "Ready", "False", "ReadinessLost"),
        ServiceCondition("shop", "bert", "Ready", "True", ""),
    ),
)


def samples(text: bytes) -> dict[str, float]:
    """Values by name and the values of the labels, in the order of their names."""
    return {
        item.name + "".join(f" {value}" for _, value in sorted(item.labels.items())): item.value
        for family in text_string_to_metric_families(text.decode())
        for item in family.samples
    }


def test_a_snapshot_is_gauges_with_the_worst_and_the_sum_of_the_watches_of_a_kind() -> None:
    assert samples(snapshot_exposition(STATE)) == {
        "isvc_operator_queue_depth": 3,
        "isvc_operator_queue_oldest_seconds": 2.5,
        "isvc_operator_queue_retrying refused": 3,
        "isvc_operator_queue_retrying error": 1,
        "isvc_operator_queue_retrying unexpected": 0,
        "isvc_operator_reconciles_running": 2,
        "isvc_operator_reconcile_longest_running_seconds": 1.5,
        "isvc_operator_children_contested": 6,
        "isvc_operator_api_pause_seconds": 0,
        "isvc_operator_config_last_reload_successful": 1,
        "isvc_operator_leader": 1,
        "isvc_operator_watch_silent_seconds pods": 9,
        "isvc_operator_watch_silent_seconds services": 1,
        "isvc_operator_watch_starts_total pods": 3,
        "isvc_operator_watch_starts_total services": 1,
        "isvc_operator_services Pending": 0,
        "isvc_operator_services Starting": 0,
        "isvc_operator_services Ready": 5,
        "isvc_operator_services Failed": 1,
        "isvc_operator_services Stopped": 0,
        "isvc_operator_services Terminating": 0,
        "isvc_operator_service_condition bert bank ReadinessLost False Ready": 1,
        "isvc_operator_service_condition bert shop  True Ready": 1,
        f"isvc_operator_build_info {__version__}": 1,
    }


def test_what_happens_is_counted_and_timed() -> None:
    metrics = Metrics()
    metrics.reconciled(Result.SUCCESS, 0.2)
    metrics.reconciled(Result.ERROR, 0.4)
    metrics.reconciled(Result.UNEXPECTED, 0.8)
    metrics.requested("patch", "200", 0.1)
    metrics.requested("patch", "409", 0.3)
    metrics.refused("create", "deployments", "admission")

    found = samples(metrics.exposition(Snapshot()))

    expected = {
        "isvc_operator_reconcile_duration_seconds_count success": 1,
        "isvc_operator_reconcile_duration_seconds_sum success": 0.2,
        "isvc_operator_reconcile_duration_seconds_sum error": 0.4,
        "isvc_operator_reconcile_duration_seconds_sum unexpected": 0.8,
        "isvc_operator_reconcile_retries_total": 2,
        "isvc_operator_api_requests_total 200 patch": 1,
        "isvc_operator_api_requests_total 409 patch": 1,
        "isvc_operator_api_requests_refused_total admission deployments create": 1,
        "isvc_operator_api_request_duration_seconds_count patch": 2,
        "isvc_operator_api_request_duration_seconds_sum patch": 0.4,
    }
    assert {name: found[name] for name in expected} == expected
