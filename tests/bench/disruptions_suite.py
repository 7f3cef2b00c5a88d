"""Requests that fail while pods are replaced, removed and evicted, on the cluster of `make cluster-up images deploy`.

Two services, one over HTTP and one over gRPC, get 50 requests a second each through the ingress controller.
"""

from __future__ import annotations

import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.bench.options import Options
from tests.bench.report import Measured, Row, versions
from tests.support.cluster import HTTP, RealCluster
from tests.support.disruptions import CLAIM, RATE, Services, write_model
from tests.support.namespace import Namespace
from tests.support.steady_load import SteadyLoad
from tests.support.volumes import Volume

ROOT = Path(__file__).parents[2]
UPDATES, SCALE_INS, DRAINS = 20, 20, 5
PODS = 2  # of each service, before a scale-in and for a drain

log = logging.getLogger(__name__)


def measure(options: Options) -> Measured:
    """Rows of the suite."""
    kubeconfig = Path(options.environment.get("KUBECONFIG") or ROOT / ".cluster" / "kubeconfig")
    cluster = RealCluster(kubeconfig, options.environment.get("KUBECTL", "kubectl"))
    with _prepared(cluster) as services:
        cells = [
            _one_kind(services, what, count, disrupt)
            for what, count, disrupt in _disruptions(services, quick=options.quick)
        ]
    server = json.loads(cluster.kubectl("version", "--output=json"))["serverVersion"]["gitVersion"]
    return Measured([_row(cell) for cell in cells], versions(kubernetes_server=server), cells)


def _disruptions(services: Services, *, quick: bool) -> Iterator[tuple[str, int, Callable[[int], None]]]:
    """Yield each kind of disruption, how many there are, and what one does."""

    def scale_in(_: int) -> None:
        services.scale(PODS)
        services.scale(1)

    yield "rolling updates", 2 if quick else UPDATES, services.roll
    yield "scale-ins", 2 if quick else SCALE_INS, scale_in
    services.scale(PODS)
    yield "node drains", 1 if quick else DRAINS, lambda _: services.drain()


def _one_kind(services: Services, what: str, count: int, disrupt: Callable[[int], None]) -> Mapping[str, Any]:
    started = time.monotonic()
    with SteadyLoad(services.targets(), RATE) as load:
        for number in range(1, count + 1):
            disrupt(number)
            log.info("%s: %d of %d, %d requests, failed: %s", what, number, count, load.requests, dict(load.failures))
        services.wait_for_ends()
    seconds = round(time.monotonic() - started)
    return {
        "what": what,
        "count": count,
        "requests": load.requests,
        "seconds": seconds,
        "failures": dict(load.failures),
    }


def _row(cell: Mapping[str, Any]) -> Row:
    failed, clients = sum(cell["failures"].values()), f"HTTP and gRPC, {RATE} requests a second each"
    what = f"{cell['count']} {cell['what']}: failed of {cell['requests']} requests ({clients})"
    return Row(str(cell["what"]).replace(" ", "-"), what, failed, "requests", "0", failed == 0)


@contextmanager
def _prepared(cluster: RealCluster) -> Iterator[Services]:
    name = f"bench-{int(time.time())}"
    cluster.kubectl("create", "namespace", name)
    namespace = Namespace(cluster, name)
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder))
        with Volume(namespace, CLAIM).filled_from(Path(folder)):
            services = Services(namespace, urlsplit(HTTP).netloc)
            services.deploy()
            yield services
    cluster.kubectl("delete", "namespace", name, "--wait=false")
