"""Services that are as large, as long or as restless as the API server allows, among many others: those get Ready."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from isvc_operator.limits import LOG_READ_BYTES, VARIABLES
from tests.integration.conftest import assets
from tests.support.apiserver import ApiServer, Refused, install_crds, install_runtime, running
from tests.support.builders import a_service_body
from tests.support.fake_kubelet import fake_kubelet
from tests.support.namespace import Namespace
from tests.support.operator_process import metrics_of, operator
from tests.support.ports import free_port
from tests.support.waiting import eventually

__all__ = ["assets"]  # a fixture

MOST_BYTES = 400 * 1024 * 1024  # of the operator, resident
GOOD_SERVICES = 200
WITHIN = 120.0  # seconds
NODE = "long-lines"
MERGE = "application/merge-patch+json"
LONGEST_NAME = "n" * 48  # with `isvc.` and `-predictor`, the 63 characters of a label
TEXT = "\n2026-01-01 00:00:00,000 ERROR   isvc_operator: all is lost\r\x1b[2J\u202e"


def good(name: str, **predictor: Any) -> dict[str, Any]:
    body = a_service_body(name)
    spec = {**body["spec"], "predictor": {**body["spec"]["predictor"], **predictor}}
    return {**body, "metadata": {"name": name}, "spec": spec}


def with_env(name: str, count: int, size: int) -> dict[str, Any]:
    """A service with so many variables in its server and in a sidecar, each of so many characters."""
    env = [{"name": f"VARIABLE_{number}", "value": "v" * size} for number in range(count)]
    service = good(name, containers=[{"name": "sidecar", "image": "i:1", "env": env}])
    service["spec"]["predictor"]["model"]["env"] = env
    return service


def with_annotations(name: str) -> dict[str, Any]:
    service = good(name)
    service["metadata"]["annotations"] = {f"example.com/{number}": "a" * 30 for number in range(5000)}
    return service


# What the API server accepts. The large one, which is refused, has 1.4 MB; etcd takes 1.5.
LARGE = with_env("large", 1, 700_000)
POISONS = (
    with_env("many-variables", VARIABLES, 100),
    with_annotations("many-annotations"),
    good(LONGEST_NAME),
    good("restless"),
    good("conditions"),
    good("long-line"),
    good("termination"),
)


@dataclass
class Watched:
    """Reads the operator's memory until told to stop, and keeps the highest value."""

    port: int
    resident: float = 0.0
    _done: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Watched:
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._done.wait(0.5):
            self.resident = max(self.resident, metrics(self.port)["process_resident_memory_bytes"])


def metrics(port: int) -> dict[str, float]:
    families = text_string_to_metric_families(metrics_of(port))
    return {item.name: item.value for family in families for item in family.samples if not item.labels}


@pytest.fixture
def alone(assets: Path) -> Iterator[ApiServer]:
    """An API server without objects of other tests, that takes events of any number."""
    with running(assets) as server:
        install_crds(server)
        install_runtime(server)
        yield server


@contextlib.contextmanager
def restless(server: ApiServer, namespace: Namespace) -> Iterator[None]:
    """The status of a Deployment changes each 10 ms."""
    done = threading.Event()

    def change() -> None:
        for number in itertools.count():
            if done.wait(0.01):
                return
            with contextlib.suppress(Refused):
                patch_status(server, namespace, "restless-predictor", {"replicas": 1, "updatedReplicas": number % 2})

    changing = threading.Thread(target=change)
    changing.start()
    try:
        yield
    finally:
        done.set()
        changing.join()


def patch_status(server: ApiServer, namespace: Namespace, deployment: str, status: dict[str, Any]) -> None:
    uri = f"/apis/apps/v1/namespaces/{namespace.name}/deployments/{deployment}/status"
    server.send("PATCH", uri, {"status": status}, content=MERGE)


def play_rollout(server: ApiServer, namespace: Namespace, deployment: str) -> None:
    generation = (namespace.find("deployment", deployment) or {})["metadata"]["generation"]
    done = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
    patch_status(server, namespace, deployment, {"observedGeneration": generation, **done})


def many_conditions() -> list[dict[str, Any]]:
    return [{"type": f"Condition{number}", "status": "True", "message": "m" * 100} for number in range(5000)]


def make_failing_pod(server: ApiServer, namespace: Namespace, service: str, message: str) -> None:
    labels = {
        "serving.kserve.io/inferenceservice": service,
        "component": "predictor",
        "app": f"isvc.{service}-predictor",
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{service}-1", "labels": labels},
        "spec": {"nodeName": NODE, "containers": [{"name": "kserve-container", "image": "i:1"}]},
    }
    namespace.apply(pod)
    ended = {"exitCode": 3, "reason": "Error", "message": message, "containerID": "c://1"}
    status = {
        "name": "kserve-container", "image": "", "imageID": "", "ready": False, "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended},
    }  # fmt: skip
    uri = f"/api/v1/namespaces/{namespace.name}/pods/{service}-1/status"
    server.send("PATCH", uri, {"status": {"phase": "Running", "containerStatuses": [status]}}, content=MERGE)


def deployments(server: ApiServer, namespace: Namespace) -> set[str]:
    found = server.send("GET", f"/apis/apps/v1/namespaces/{namespace.name}/deployments")["items"]
    return {item["metadata"]["name"] for item in found}


def ready(server: ApiServer, namespace: Namespace) -> set[str]:
    uri = f"/apis/serving.kserve.io/v1beta1/namespaces/{namespace.name}/inferenceservices"
    found = server.send("GET", uri)["items"]
    return {
        item["metadata"]["name"]
        for item in found
        for condition in item.get("status", {}).get("conditions", ())
        if (condition["type"], condition["status"]) == ("Ready", "True")
    }


def test_the_others_get_ready_beside_them(alone: ApiServer, tmp_path: Path) -> None:
    for name in ("poison", "good"):
        alone.create_namespace(name)
    poison, others = Namespace(alone, "poison"), Namespace(alone, "good")
    names = [f"good-{number}" for number in range(GOOD_SERVICES)]
    log, port = tmp_path / "operator.log", free_port()
    with (
        fake_kubelet(alone, NODE, tmp_path / "kubelet") as asked,
        operator(alone, log, f"--health-port={port}"),
        Watched(port) as seen,
    ):
        for service in (LARGE, *POISONS):
            poison.apply(service)
        poison.wait_for_condition("Ready", "False", "InvalidPredictorSpec", "large")
        expected = {f"{service['metadata']['name']}-predictor" for service in POISONS}
        eventually(lambda: deployments(alone, poison) >= expected, "the poisons have their children", WITHIN)
        patch_status(alone, poison, "conditions-predictor", {"conditions": many_conditions()})
        make_failing_pod(alone, poison, "long-line", "")
        make_failing_pod(alone, poison, "termination", TEXT * 50)
        with restless(alone, poison), ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: others.apply(good(name)), names))
            wanted = {f"{name}-predictor" for name in names}
            eventually(lambda: deployments(alone, others) >= wanted, "the others have their children", WITHIN)
            list(pool.map(lambda name: play_rollout(alone, others, f"{name}-predictor"), names))
            eventually(lambda: ready(alone, others) == set(names), "the others are ready", WITHIN)
        for service in ("long-line", "termination"):
            poison.wait_for_condition("Ready", "False", service=service)
        said = {item: json.dumps(poison.find("inferenceservice", item)) for item in ("long-line", "termination")}
    assert seen.resident < MOST_BYTES
    assert asked
    assert all(f"limitBytes={LOG_READ_BYTES}" in path for path in asked)
    assert all("\x1b" not in text and "\\u001b" not in text for text in said.values())
    assert "Traceback" not in log.read_text()
