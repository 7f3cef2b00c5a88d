"""Services that mean harm beside good ones, on a real API server: the operator goes on, and says what is wrong."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from isvc_operator.limits import VALUES
from tests.hostile.health import healthy
from tests.integration.conftest import apiserver, assets
from tests.support.apiserver import ApiServer, install_runtime
from tests.support.builders import a_service_body
from tests.support.fake_pods import make_pod, set_initializer
from tests.support.namespace import Namespace
from tests.support.operator_process import operator
from tests.support.ports import free_port
from tests.support.waiting import eventually

__all__ = ["apiserver", "assets"]  # fixtures

MOST_BYTES_OF_A_STATUS = 64 * 1024
TOLD = (("Ready", "False"), ("FieldsIgnored", "True"))
REASONS = ("InvalidPredictorSpec", "NoSupportingRuntime", "ReconcileFailed", "FieldsIgnored")
A_RECORD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (DEBUG|INFO|WARNING|ERROR|CRITICAL) ")
FORGED = "\n2026-01-01 00:00:00,000 ERROR   isvc_operator: all is lost\r\x1b[2J\u202e"
_numbers = itertools.count(1)


def nested(levels: int, inside: str = "1") -> str:
    return '{"a":' * levels + inside + "}" * levels


def predictor(fields: str) -> str:
    """A predictor as JSON: no library here writes some of them."""
    model = '{"modelFormat": {"name": "pytorch"}, "storageUri": "pvc://leeway"}'
    return f'{{"model": {model}, {fields}}}'


POISONS = {
    "deep": predictor(f'"affinity": {nested(900)}'),
    "deeper": predictor(f'"affinity": {nested(3000)}'),
    "deepest": predictor(f'"containers": [{{"name": "a", "x": {nested(9000)}}}]'),
    "many-fields": predictor(", ".join(f'"field{number}": 1' for number in range(VALUES + 10_000))),
    "long-field": predictor('"' + "f" * 600_000 + '": 1'),
    "no-list": predictor('"containers": [{"name": "a", "ports": 5}]'),
    "no-name": predictor('"containers": [{"name": "a", "env": [{}], "resources": {"limits": null}}]'),
    "placeholders": predictor('"containers": [{"name": "b", "image": "i", "args": []}]').replace(
        '"storageUri"', '"args": [' + ", ".join(['"{{.Annotations.large}}"'] * 5000) + '], "storageUri"'
    ),
    "forged": predictor('"a\\u001b[2J\\nReady: True\\u202e": 1').replace('"pytorch"', '"p\\n\\u001b[2J"'),
}
ANNOTATIONS = {
    "deep-annotation": {"storage.isvc-operator.io/resources": "[" * 60_000},
    "deep-checksums": {"storage.isvc-operator.io/sha256": '{"a":' * 20_000},
}  # fmt: skip


def manifest(name: str, spec: str, annotations: dict[str, str] | None = None) -> str:
    head = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService"}
    metadata = json.dumps({"name": name, "annotations": annotations or {}})
    return json.dumps(head)[:-1] + f', "metadata": {metadata}, "spec": {{"predictor": {spec}}}}}'


def runtime(name: str) -> str:
    """A ServingRuntime that would be the first choice, if it could be read."""
    head = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ServingRuntime", "metadata": {"name": name}}
    formats = '[{"name": "pytorch", "autoSelect": true, "priority": 9}]'
    containers = f'[{{"name": "kserve-container", "image": "i", "x": {nested(5000)}}}]'
    return json.dumps(head)[:-1] + f', "spec": {{"supportedModelFormats": {formats}, "containers": {containers}}}}}'


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "operator.log"


@pytest.fixture(autouse=True)
def runtimes(apiserver: ApiServer) -> None:
    install_runtime(apiserver)


@pytest.fixture
def namespace(apiserver: ApiServer) -> Iterator[Namespace]:
    """One that is emptied at the end: a service that means harm must not be met by the next test."""
    made = a_namespace(apiserver)
    yield made
    made.kubectl("delete", "inferenceservices", "--all")


def a_namespace(server: ApiServer) -> Namespace:
    name = f"hostile-{next(_numbers)}"
    server.create_namespace(name)
    return Namespace(server, name)


def status_of(namespace: Namespace, name: str) -> str:
    """As JSON. Python cannot decode the whole of some of these services."""
    return namespace.kubectl("get", "inferenceservice", name, "--output=jsonpath={.status}")


def reason_of(namespace: Namespace, name: str) -> str:
    """Why the service is not ready, or what of it has no effect, once it is said."""

    def said() -> str | None:
        conditions = json.loads(status_of(namespace, name) or "{}").get("conditions", [])
        told = [item for item in conditions if (item["type"], item["status"]) in TOLD]
        return next((item["reason"] for item in told), None)

    return eventually(said, f"{name} has a reason")


def good(name: str) -> dict[str, Any]:
    body = a_service_body(name)
    return {**body, "metadata": {"name": name}}


def test_services_that_mean_harm_get_a_reason_and_a_good_one_its_pods(
    apiserver: ApiServer, namespace: Namespace, log: Path, tmp_path: Path
) -> None:
    large = {"large": "x" * 100_000}
    poisons = {name: manifest(name, spec, large if name == "placeholders" else {}) for name, spec in POISONS.items()}
    poisons |= {name: manifest(name, predictor('"name": "a"'), given) for name, given in ANNOTATIONS.items()}
    health = free_port()
    with operator(apiserver, log, f"--health-port={health}"), healthy(health, "/healthz"):
        for name, text in [*poisons.items(), ("runtime", runtime("first-choice"))]:
            (tmp_path / name).write_text(text)
            namespace.kubectl("create", f"--filename={tmp_path / name}")
        namespace.apply(good("good"))
        namespace.wait_for("deployment", "good-predictor")
        reasons = {name: reason_of(namespace, name) for name in poisons}
    assert {name: reason for name, reason in reasons.items() if reason not in REASONS} == {}

    with operator(apiserver, log):
        namespace.apply(good("after-a-restart"))
        namespace.wait_for("deployment", "after-a-restart-predictor")
    statuses = {name: status_of(namespace, name) for name in poisons}
    assert {name: len(text) for name, text in statuses.items() if len(text.encode()) > MOST_BYTES_OF_A_STATUS} == {}
    assert [name for name, text in statuses.items() if "\\u001b" in text or "\u202e" in text] == []
    assert "Traceback" not in log.read_text()


def test_what_a_container_says_cannot_pass_for_anything_of_ours(
    apiserver: ApiServer, namespace: Namespace, log: Path
) -> None:
    with operator(apiserver, log, "--log-level=DEBUG"):
        namespace.apply_story()
        namespace.wait_for("deployment", "torchserve-predictor")
        make_pod(namespace)
        ended = {"exitCode": 12, "reason": "Error", "message": f"no{FORGED}", "containerID": "c://1"}
        set_initializer(namespace, {"terminated": ended})
        condition = namespace.wait_for_condition("Ready", "False", "StorageInitializerFailed")
        events = eventually(
            lambda: [
                event["message"]
                for event in json.loads(namespace.kubectl("get", "events", "--output=json"))["items"]
                if event["reason"] == "StorageInitializerFailed"
            ],
            "the failure is recorded",
        )

    quoted = "\n| 2026-01-01 00:00:00,000 ERROR   isvc_operator: all is lost\\r\\x1b[2J\\u202e"
    assert condition["message"].endswith(f"exit code 12: no{quoted}")
    assert events == [condition["message"]]
    lines = log.read_text(encoding="utf-8").split("\n")
    assert [line for line in lines if line and not line.startswith("| ") and not A_RECORD.match(line)] == []
    assert [line for line in lines if not line.isprintable()] == []
