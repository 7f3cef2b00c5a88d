"""One service from one pod to four and back, under load: by CPU, then by what its servers have in flight.

On the bare cluster of `make cluster-up` with its images, after `bash tests/cluster/autoscaling`: metrics-server,
Kubernetes' own HorizontalPodAutoscaler, KEDA and a Prometheus. Callers wait for each answer before they ask again.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from urllib3 import HTTPConnectionPool
from urllib3.exceptions import HTTPError

from tests.bench.options import Options
from tests.bench.report import Measured, Row, versions
from tests.support.cluster import HTTP, RealCluster
from tests.support.model_folder import manifest, write_mar
from tests.support.namespace import Namespace
from tests.support.volumes import Volume
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
SERVICE, PREDICTOR = "busy", "busy-predictor"
MOST, CALLERS = 4, 12
WITHIN = 240.0  # seconds for one way
# A tenth of a second of computing for each request.
HANDLER = b"""
import time

def handle(data, context):
    if data is None:
        return None
    for _ in data:
        end = time.thread_time() + 0.1
        while time.thread_time() < end:
            pass
    return ["done" for _ in data]
"""
CONFIG = "model_store=model-store\nload_models=all\n"
PACE = {"scaleDown": {"stabilizationWindowSeconds": 15}}


def measure(options: Options) -> Measured:
    """Rows of the suite."""
    kubeconfig = Path(options.environment.get("KUBECONFIG") or ROOT / ".cluster" / "kubeconfig")
    cluster = RealCluster(kubeconfig, options.environment.get("KUBECTL", "kubectl"))
    prometheus = f"http://{(ROOT / '.cluster' / 'node-ip').read_text().strip()}:9090"
    rows = []
    with _namespace(cluster) as namespace, tempfile.TemporaryDirectory() as folder, _filled(namespace, Path(folder)):
        for name, service in (("hpa", by_cpu()), ("keda", by_requests(prometheus, namespace.name))):
            namespace.apply(service)
            namespace.wait_for_condition("Ready", "True", service=SERVICE, within=WITHIN)
            rows += _rows(name, _up_and_down(namespace, _host(namespace)))
    server = json.loads(cluster.kubectl("version", "--output=json"))["serverVersion"]["gitVersion"]
    return Measured(rows, versions(kubernetes_server=server))


def by_cpu() -> dict[str, Any]:
    """A service that a HorizontalPodAutoscaler scales at half of the CPU that its pods request."""
    target = {"type": "Utilization", "averageUtilization": 50}
    return a_service("hpa", {"type": "Resource", "resource": {"name": "cpu", "target": target}})


def by_requests(prometheus: str, namespace: str) -> dict[str, Any]:
    """A service that KEDA scales at three requests in flight for each pod."""
    query = f'sum(requests_in_flight{{namespace="{namespace}", pod=~"{PREDICTOR}-.*"}})'
    metric = {"backend": "prometheus", "serverAddress": prometheus, "query": query}
    target = {"type": "Value", "value": "3"}
    return a_service("keda", {"type": "External", "external": {"metric": metric, "target": target}})


def a_service(scaler: str, metric: dict[str, Any]) -> dict[str, Any]:
    model = {
        "modelFormat": {"name": "pytorch"},
        "runtime": "isvc-mar",
        "storageUri": "pvc://busy",
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "400m", "memory": "2Gi"}},
    }
    scaling = {"minReplicas": 1, "maxReplicas": MOST, "autoScaling": {"metrics": [metric], "behavior": PACE}}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": SERVICE, "annotations": {"serving.kserve.io/autoscalerClass": scaler}},
        "spec": {"predictor": {**scaling, "model": model}},
    }


@contextmanager
def _namespace(cluster: RealCluster) -> Iterator[Namespace]:
    name = f"autoscaling-{int(time.time()) % 100000}"
    cluster.kubectl("create", "namespace", name)
    yield Namespace(cluster, name)
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@contextmanager
def _filled(namespace: Namespace, folder: Path) -> Iterator[None]:
    (folder / "config").mkdir()
    (folder / "config" / "config.properties").write_text(CONFIG)
    write_mar(folder / "model-store" / "busy.mar", manifest(modelName="busy"), {"handler.py": HANDLER})
    with Volume(namespace, "busy").filled_from(folder):
        yield


def _host(namespace: Namespace) -> str:
    return f"{SERVICE}.{namespace.name}.example.com"


class Load:
    """Callers that ask one after the other until they are told to stop."""

    def __init__(self, host: str) -> None:
        self.answered, self.failures = 0, list[str]()
        self._host, self._stopped = host, threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(CALLERS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        with HTTPConnectionPool(HTTP.removeprefix("http://").partition(":")[0], 8080, maxsize=1, timeout=60) as pool:
            while not self._stopped.is_set():
                try:
                    answer = pool.request(
                        "POST",
                        "/v1/models/busy:predict",
                        body=b'{"instances": [1]}',
                        headers={"Host": self._host, "Content-Type": "application/json"},
                        retries=False,
                    )
                except HTTPError as error:
                    self.failures.append(type(error).__name__)
                    continue
                if answer.status == 200:
                    self.answered += 1
                else:
                    self.failures.append(f"{answer.status} {answer.data[:200].decode(errors='replace')}")


def _up_and_down(namespace: Namespace, host: str) -> dict[str, float]:
    """Seconds until all pods are available, and until one is left; and what became of the requests."""
    load = Load(host)
    began = time.monotonic()
    load.start()
    try:
        not_ready = _until(namespace, MOST)
        up = time.monotonic() - began
        time.sleep(15)  # the full load on all pods
    finally:
        load.stop()
    ended = time.monotonic()
    not_ready += _until(namespace, 1)
    for failure in sorted(set(load.failures)):
        sys.stderr.write(f"failed: {failure}\n")
    return {"up": up, "down": time.monotonic() - ended, "answered": load.answered, "failed": len(load.failures),
            "not_ready": not_ready}  # fmt: skip


def _until(namespace: Namespace, pods: int) -> int:
    """Wait for so many available pods; returns how often the service was seen not Ready."""
    not_ready = 0

    def there() -> bool:
        nonlocal not_ready
        not_ready += namespace.condition("Ready", SERVICE).get("status") != "True"
        deployment = namespace.find("deployment", PREDICTOR) or {}
        status = deployment.get("status", {})
        return bool(deployment["spec"]["replicas"] == status.get("availableReplicas") == status.get("replicas") == pods)

    eventually(there, f"{PREDICTOR} has {pods} pods", WITHIN, lambda: namespace.kubectl("get", "hpa,deployment,pods"))
    return not_ready


def _rows(name: str, found: dict[str, float]) -> list[Row]:
    by = {"hpa": "CPU, a HorizontalPodAutoscaler", "keda": "requests in flight, KEDA and Prometheus"}[name]
    return [
        Row(f"{name}-up", f"by {by}: load begins → four pods serve", round(found["up"]), "s", "–", True),
        Row(f"{name}-down", "… load ends → one pod is left", round(found["down"]), "s", "–", True),
        Row(f"{name}-answered", "… requests answered", found["answered"], "requests", "–", True),
        Row(f"{name}-failed", "… requests failed", found["failed"], "requests", "0", found["failed"] == 0),
        Row(f"{name}-not-ready", "… times the service was seen not Ready", found["not_ready"], "times", "0",
            found["not_ready"] == 0),
    ]  # fmt: skip
