"""How long nobody reconciles when the leader of two replicas ends, on the cluster of `make cluster-up images deploy`.

Measured from outside: a service is created at the moment at which the leader's process is killed or told to stop, or
its pod is deleted, and the clock stops when its Deployment exists. The cluster's node has to be this host.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.bench.options import Options
from tests.bench.report import Measured, Row, versions
from tests.support.cluster import RealCluster
from tests.support.disruptions import a_service
from tests.support.namespace import Namespace
from tests.support.replicas import Replicas, two_replicas
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
ROUNDS = 5
WITHIN = 60.0  # seconds
AT_MOST = {"killed": 15.0, "stopped": 2.0}  # seconds; a deleted pod is told to stop when the kubelet gets to it

log = logging.getLogger(__name__)


def measure(options: Options) -> Measured:
    """Rows of the suite."""
    kubeconfig = Path(options.environment.get("KUBECONFIG") or ROOT / ".cluster" / "kubeconfig")
    cluster = RealCluster(kubeconfig, options.environment.get("KUBECTL", "kubectl"))
    name = f"bench-{int(time.time())}"
    cluster.kubectl("create", "namespace", name)
    namespace = Namespace(cluster, name)
    rounds = 1 if options.quick else ROUNDS
    with two_replicas(cluster) as replicas:
        ends = {"killed": replicas.kill_leader, "stopped": replicas.stop_leader, "deleted": replicas.delete_leader}
        cells = [_round(replicas, namespace, how, end, number) for how, end in ends.items() for number in range(rounds)]
    cluster.kubectl("delete", "namespace", name, "--wait=false")
    server = json.loads(cluster.kubectl("version", "--output=json"))["serverVersion"]["gitVersion"]
    return Measured([_row(how, cells) for how in ends], versions(kubernetes_server=server), cells)


def _round(
    replicas: Replicas, namespace: Namespace, how: str, end: Callable[[], str], number: int
) -> Mapping[str, Any]:
    service = a_service(f"{how}-{number}", "v2")
    leader = end()
    started = time.monotonic()
    namespace.apply(service)
    eventually(lambda: namespace.find("deployment", f"{how}-{number}-predictor"), "it is served", WITHIN)
    seconds = round(time.monotonic() - started, 2)
    log.info("%s, round %d: %.2f s", how, number + 1, seconds)
    replicas.replace(leader)
    return {"what": how, "round": number + 1, "seconds": seconds}


def _row(how: str, cells: list[Mapping[str, Any]]) -> Row:
    found = sorted(cell["seconds"] for cell in cells if cell["what"] == how)
    what = f"leader {how} → the other one has created a new service's Deployment; worst of {len(found)}"
    median, target = found[len(found) // 2], AT_MOST.get(how)
    return Row(
        f"takeover-{how}", f"{what}, median {median:g} s", found[-1], "s", f"≤ {target:g} s" if target else "none",
        target is None or found[-1] <= target,
    )  # fmt: skip
