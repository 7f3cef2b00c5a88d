"""Whether the operator is alive, and whether it is ready. Pure."""

from __future__ import annotations

from isvc_operator.limits import QUEUE_STILL_SECONDS, WATCH_SILENT_SECONDS
from isvc_operator.telemetry.snapshot import Snapshot


def not_alive(snapshot: Snapshot) -> list[str]:
    """Return why a restart may help, none if the operator is alive: a silent watch, or a queue that does not move."""
    problems = [
        f"the watch of {watch.path} has heard nothing from the API server for {watch.silent:.0f} s"
        for watch in snapshot.watches
        if watch.silent > WATCH_SILENT_SECONDS
    ]
    if not snapshot.discovered and snapshot.running > WATCH_SILENT_SECONDS:
        problems.append(f"the API server has not said in {snapshot.running:.0f} s what there is to watch")
    queue = snapshot.queue
    if queue.still > QUEUE_STILL_SECONDS:
        problems.append(f"{queue.waiting} services wait, and for {queue.still:.0f} s no reconcile has begun or ended")
    return problems


def not_ready(snapshot: Snapshot) -> list[str]:
    """Return why the operator does not know the cluster yet, none if all watched kinds have been listed."""
    if not snapshot.discovered:
        return ["the API server has not said yet what there is to watch"]
    return [f"{watch.path} has not been listed yet" for watch in snapshot.watches if not watch.listed]
