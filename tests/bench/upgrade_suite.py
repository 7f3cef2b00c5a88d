"""Requests that fail while the operator is upgraded, on the cluster of `make cluster-up images deploy`.

The operator of the last release serves two services, one over HTTP and one over gRPC, which get 50 requests a second
each through the ingress controller. This version takes over, replaces no pods, and then does: with the policy Auto.
"""

from __future__ import annotations

import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.bench.options import Options
from tests.bench.report import Measured, Row, versions
from tests.support.cluster import HTTP, RealCluster
from tests.support.disruptions import CLAIM, RATE, Services, write_model
from tests.support.last_release import last_release
from tests.support.namespace import Namespace
from tests.support.steady_load import SteadyLoad
from tests.support.upgrading import CHANGED, last_release_operates
from tests.support.volumes import Volume

ROOT = Path(__file__).parents[2]
UPGRADES = 5

log = logging.getLogger(__name__)


def measure(options: Options) -> Measured:
    """Rows of the suite."""
    kubeconfig = Path(options.environment.get("KUBECONFIG") or ROOT / ".cluster" / "kubeconfig")
    cluster = RealCluster(kubeconfig, options.environment.get("KUBECTL", "kubectl"))
    rounds = [_upgrade(cluster) for _ in range(1 if options.quick else UPGRADES)]
    server = json.loads(cluster.kubectl("version", "--output=json"))["serverVersion"]["gitVersion"]
    return Measured(list(_rows(rounds)), versions(kubernetes_server=server), rounds)


def _upgrade(cluster: RealCluster) -> Mapping[str, Any]:
    """One upgrade of new services, in two parts: the operator changes, and then the pods do."""
    with tempfile.TemporaryDirectory() as folder, _prepared(cluster, Path(folder)) as services, ExitStack() as old:
        old.enter_context(last_release_operates(cluster, Path(folder)))
        services.deploy()
        before = services.pods()

        def take_over() -> None:
            old.close()
            services.wait_for_newer_template()

        upgraded = _under_load(services, take_over)
        kept = len({*before}.intersection(services.pods()))
        rolled = _under_load(services, services.follow_the_operator)
    log.info("%d of %d pods kept; %s; %s", kept, len(before), upgraded, rolled)
    return {"pods": len(before), "kept": kept, "upgrade": upgraded, "auto": rolled}


def _under_load(services: Services, change: Callable[[], None]) -> Mapping[str, Any]:
    started = time.monotonic()
    with SteadyLoad(services.targets(), RATE) as load:
        change()
        services.wait_for_ends()
    seconds = round(time.monotonic() - started, 1)
    return {"requests": load.requests, "seconds": seconds, "failures": dict(load.failures)}


def _rows(rounds: list[Mapping[str, Any]]) -> Iterator[Row]:
    count = f"{len(rounds)} upgrades from version {last_release().version}"
    replaced = sum(item["pods"] - item["kept"] for item in rounds)
    yield Row("upgrade-pods", f"{count}: pods replaced", replaced, "pods", "0", replaced == 0)
    for part, what in (("upgrade", "the operator is replaced"), ("auto", "then the pods, with Auto")):
        failed = sum(sum(item[part]["failures"].values()) for item in rounds)
        requests = sum(item[part]["requests"] for item in rounds)
        what = f"{count}, {what}: failed of {requests} requests (HTTP and gRPC, {RATE} a second each)"
        yield Row(f"{part}-failed", what, failed, "requests", "0", failed == 0)


@contextmanager
def _prepared(cluster: RealCluster, folder: Path) -> Iterator[Services]:
    name = f"bench-{int(time.time())}"
    cluster.kubectl("create", "namespace", name)
    namespace = Namespace(cluster, name)
    model = folder / "model"
    model.mkdir()
    write_model(model)
    with Volume(namespace, CLAIM).filled_from(model):
        yield Services(namespace, urlsplit(HTTP).netloc, CHANGED)
    cluster.kubectl("delete", "namespace", name, "--wait=false")
