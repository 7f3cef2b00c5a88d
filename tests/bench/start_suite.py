"""From pod created to Ready, by stage, on the cluster of `make cluster-up` with its images present.

The story's service is made, measured and deleted a few times. Stages are timed by this machine's clock, at the moment
when a watch on the pod first shows them.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.options import Options
from tests.bench.report import Measured, Row, versions
from tests.support.cluster import RealCluster
from tests.support.namespace import STORY, Namespace
from tests.support.volumes import Volume
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
RUNS = 3
TARGET = 15.0  # seconds
Pod = Mapping[str, Any]


def measure(options: Options) -> Measured:
    """Rows of the suite."""
    kubeconfig = Path(options.environment.get("KUBECONFIG") or ROOT / ".cluster" / "kubeconfig")
    cluster = RealCluster(kubeconfig, options.environment.get("KUBECTL", "kubectl"))
    with _prepared(cluster) as namespace:
        runs = [_one_start(namespace) for _ in range(RUNS)]
    rows = []
    for before, stage in zip(STAGES, list(STAGES)[1:], strict=False):
        seconds = statistics.median(run[stage] - run[before] for run in runs)
        rows.append(Row(f"start-{stage}", f"… {before} → {stage}", round(seconds, 2), "s", "–", True))
    total = statistics.median(run["ready"] - run["created"] for run in runs)
    what = f"pod created → Ready, images present, median of {RUNS}"
    rows.insert(0, Row("start", what, round(total, 2), "s", "≤ 15", total <= TARGET))
    server = json.loads(cluster.kubectl("version", "--output=json"))["serverVersion"]["gitVersion"]
    return Measured(rows, versions(kubernetes_server=server))


def _terminated(pod: Pod) -> bool:
    return any("terminated" in item["state"] for item in _statuses(pod, "initContainerStatuses"))


def _running(pod: Pod, statuses: str) -> bool:
    return any("running" in item["state"] for item in _statuses(pod, statuses))


def _ready(pod: Pod) -> bool:
    return any(item["type"] == "Ready" and item["status"] == "True" for item in _statuses(pod, "conditions"))


def _statuses(pod: Pod, name: str) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = pod["status"].get(name, [])
    return found


STAGES: dict[str, Callable[[Pod], bool]] = {
    "created": lambda _: True,
    "initializer started": lambda pod: _running(pod, "initContainerStatuses") or _terminated(pod),
    "model copied": _terminated,
    "server started": lambda pod: _running(pod, "containerStatuses"),
    "ready": _ready,
}


def _one_start(namespace: Namespace) -> dict[str, float]:
    """Times (seconds of the monotonic clock) at which each stage was first seen."""
    seen: dict[str, float] = {}
    with _watching_pods(namespace) as pods:
        namespace.kubectl("apply", "--filename", str(STORY))
        for pod in pods:
            for stage, reached in STAGES.items():
                if stage not in seen and reached(pod):
                    seen[stage] = time.monotonic()
            if "ready" in seen:
                break
    namespace.kubectl("delete", "--filename", str(STORY))
    assert "ready" in seen, f"the pod did not get ready; it reached: {', '.join(seen)}"
    eventually(lambda: not _list_pods(namespace), "the pod is gone", 90)
    return seen


def _list_pods(namespace: Namespace) -> str:
    return namespace.kubectl("get", "pods", "--output=name")


@contextmanager
def _watching_pods(namespace: Namespace) -> Iterator[Iterator[Pod]]:
    """The predictor's pod at each of its changes."""
    cluster = namespace.server
    assert isinstance(cluster, RealCluster)
    command = [
        cluster.binary, f"--kubeconfig={cluster.kubeconfig}", f"--namespace={namespace.name}",
        "get", "pods", "--watch", "--output=json", "--output-watch-events",
        "--request-timeout=120s",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield _objects(process.stdout)
    finally:
        process.terminate()
        process.wait()


def _objects(stream: Any) -> Iterator[Pod]:
    """The objects of a stream of JSON documents, one after the other."""
    decoder, text = json.JSONDecoder(), ""
    for line in stream:
        text += line
        try:
            event, end = decoder.raw_decode(text.lstrip())
        except ValueError:  # the document goes on
            continue
        yield event["object"]
        text = text.lstrip()[end:]


@contextmanager
def _prepared(cluster: RealCluster) -> Iterator[Namespace]:
    name = f"bench-{int(time.time())}"
    cluster.kubectl("create", "namespace", name)
    namespace = Namespace(cluster, name)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "examples/bert/build.py", folder], cwd=ROOT, check=True)
        with Volume(namespace, "leeway").filled_from(Path(folder)):
            yield namespace
    cluster.kubectl("delete", "namespace", name, "--wait=false")
