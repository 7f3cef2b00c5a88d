"""The operator on a real API server: how soon children exist, and how many calls that takes.

Services are made one after another on an otherwise idle server. The time is the API server's own, from
its audit log (microseconds): from its answer to the request that made the service to that for the last child.

"""

from __future__ import annotations

import contextlib
import json
import statistics
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from tests.bench.options import Options
from tests.bench.report import Measured, Row, versions
from tests.support.apiserver import ApiServer, find_assets, install_runtime, running
from tests.support.namespace import story_service
from tests.support.operator_process import OPERATOR, WATCHES, operator
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
SERVICES = 20
CHILDREN = {"deployments", "services", "ingresses"}


def measure(options: Options) -> Measured:
    """Rows of the suite."""
    assets = find_assets(options.environment.get("KUBEBUILDER_ASSETS"))
    with tempfile.TemporaryDirectory() as folder, running(assets) as server:
        install(server)
        log = Path(folder) / "operator.log"
        with operator(server, log):
            latencies, calls = first_reconciles(server)
            idle = calls_when_nothing_changed(server)
        restart = writes_of_a_restart(server, log)
        version = json.loads(server.kubectl("version", "--output=json"))["serverVersion"]["gitVersion"]
    p50 = statistics.median(latencies) * 1000
    rows = [
        Row("children", "service created → its three children exist, p50", round(p50, 1), "ms", "≤ 100", p50 <= 100,
            "KServe 0.20, Deployment and Service only, measured earlier", 23.0),
        Row("children-max", "… slowest of 20", round(max(latencies) * 1000, 1), "ms", "≤ 100", max(latencies) <= 0.1),
        Row("calls", "API calls of a first reconcile, to first status", calls, "calls", "≤ 6", calls <= 6,
            "KServe 0.20, GETs alone, measured earlier", 36.0),
        Row("calls-idle", "API calls of 20 reconciles with nothing changed", idle, "calls", "0", idle == 0),
        Row("calls-restart", "writes after a restart with 20 services", restart, "calls", "0", restart == 0),
    ]  # fmt: skip
    return Measured(rows, versions(kubernetes_server=version))


def install(server: ApiServer) -> None:
    server.kubectl("apply", "--server-side", f"--filename={ROOT / 'crds'}")
    server.kubectl("wait", "--for=condition=Established", f"--filename={ROOT / 'crds'}", "--timeout=30s")
    install_runtime(server)


def first_reconciles(server: ApiServer) -> tuple[list[float], int]:
    """Seconds from service to last child for each service, and the most calls that one of them took."""
    latencies, calls = [], []
    for number in range(SERVICES):
        name, since = f"svc-{number}", server.position()
        service = story_service()
        service["metadata"] = {"name": name, "namespace": "default"}
        server.kubectl("create", "--filename=-", stdin=yaml.safe_dump(service))
        events = eventually(lambda since=since: _settled(server, since), "the status is written")
        latencies.append(_latency(events))
        calls.append(sum(event["userAgent"].startswith(OPERATOR) for event in events))
    return latencies, max(calls)


def calls_when_nothing_changed(server: ApiServer) -> int:
    """Calls after the runtime was touched in a way that changes nothing for the services that use it."""
    since = server.position()
    server.kubectl("annotate", "clusterservingruntime", "kserve-torchserve", "bench=touched", "--overwrite")
    server.kubectl("create", "namespace", "marker")
    service = story_service()
    service["metadata"] = {"name": "marker", "namespace": "marker"}
    server.kubectl("create", "--filename=-", stdin=yaml.safe_dump(service))
    eventually(lambda: _settled(server, since), "the service made last is done")
    return sum(call.namespace == "default" for call in server.calls(OPERATOR, since))


def writes_of_a_restart(server: ApiServer, log: Path) -> int:
    since = server.position()
    with operator(server, log):
        service = story_service()
        service["metadata"] = {"name": "after-restart", "namespace": "marker"}
        server.kubectl("create", "--filename=-", stdin=yaml.safe_dump(service))
        eventually(lambda: _settled(server, since), "the service made last is done")
    reads = {"get", "list", "watch"}
    by_operator = sum(call.namespace == "default" for call in server.calls(OPERATOR, since))
    return by_operator + sum(call.verb not in reads for call in server.calls(WATCHES, since))


def _settled(server: ApiServer, since: int) -> list[dict[str, Any]] | None:
    """The audit events since then, once a service's first status is there."""
    events = list(_events(server, since))
    done = any(event["objectRef"].get("subresource") == "status" and event["verb"] == "patch" for event in events)
    return events if done else None


def _events(server: ApiServer, since: int) -> Iterator[dict[str, Any]]:
    with server.audit_log.open("rb") as log:
        log.seek(since)
        for line in log:
            with contextlib.suppress(ValueError):  # a line that is being written
                event = json.loads(line)
                if event["stage"] == "ResponseComplete" and "objectRef" in event:
                    yield event


def _latency(events: list[dict[str, Any]]) -> float:
    created = next(event for event in events if event["objectRef"]["resource"] == "inferenceservices")
    children = [event for event in events if event["objectRef"]["resource"] in CHILDREN and event["verb"] == "create"]
    return (_time(children[-1]) - _time(created)).total_seconds()


def _time(event: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(event["stageTimestamp"])
