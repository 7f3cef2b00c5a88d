"""When the operator is alive, and when it is ready."""

from __future__ import annotations

from dataclasses import replace

from isvc_operator.limits import QUEUE_STILL_SECONDS, WATCH_SILENT_SECONDS
from isvc_operator.telemetry.snapshot import QueueState, Snapshot, WatchState, not_alive, not_ready

PODS = WatchState("pods", "/api/v1/pods", listed=True, silent=0.0, starts=1)


def test_a_watch_may_be_silent_for_a_while() -> None:
    at_the_limit = replace(PODS, silent=WATCH_SILENT_SECONDS)
    beyond = replace(PODS, silent=WATCH_SILENT_SECONDS + 1)

    assert not_alive(Snapshot(running=1000.0, discovered=True, watches=(at_the_limit,))) == []
    assert not_alive(Snapshot(running=1000.0, discovered=True, watches=(PODS, beyond))) == [
        "the watch of /api/v1/pods has heard nothing from the API server for 181 s"
    ]


def test_the_api_server_may_be_out_of_reach_for_a_while_at_the_start() -> None:
    assert not_alive(Snapshot(running=WATCH_SILENT_SECONDS)) == []
    assert not_alive(Snapshot(running=WATCH_SILENT_SECONDS + 1)) == [
        "the API server has not said in 181 s what there is to watch"
    ]


def test_the_queue_may_stand_still_for_a_while() -> None:
    def of(still: float) -> Snapshot:
        return Snapshot(watches=(PODS,), queue=QueueState(waiting=7, still=still))

    assert not_alive(of(QUEUE_STILL_SECONDS)) == []
    assert not_alive(of(QUEUE_STILL_SECONDS + 1)) == ["7 services wait, and for 301 s no reconcile has begun or ended"]


def test_the_operator_is_ready_when_every_watched_kind_was_listed() -> None:
    services = WatchState("services", "/api/v1/services", listed=False, silent=0.0, starts=0)

    assert not_ready(Snapshot()) == ["the API server has not said yet what there is to watch"]
    found = Snapshot(discovered=True, watches=(PODS, services))
    assert not_ready(found) == ["/api/v1/services has not been listed yet"]
    assert not_ready(replace(found, watches=(PODS, replace(services, listed=True)))) == []


def test_the_operator_is_ready_once_it_has_a_configuration() -> None:
    well = Snapshot(discovered=True, watches=(PODS,))

    assert not_ready(replace(well, configured=False)) == ["the configuration has not been read yet"]
    assert not_ready(replace(well, configured=False, refused_config="ingress: Invalid JSON")) == [
        "ingress: Invalid JSON"
    ]
    assert not_ready(replace(well, refused_config="ingress: Invalid JSON")) == []


def test_an_operator_without_a_namespace_to_watch_is_alive_and_ready() -> None:
    nothing = Snapshot(running=1000.0, discovered=True)

    assert not_alive(nothing) == not_ready(nothing) == []
