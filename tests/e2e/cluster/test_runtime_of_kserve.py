"""A runtime of KServe's, as it is installed but for its image: scikit-learn with MLServer, over the protocol v2."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import HTTP, Answer, RealCluster, curl
from tests.support.kserve_runtimes import kserve_runtime_bodies
from tests.support.namespace import Namespace
from tests.support.volumes import Volume
from tests.support.waiting import eventually

FILES = Path(__file__).parent / "mlserver"
IMAGE = "localhost/isvc-operator/mlserver:0.2.0"
RUNTIME, SERVICE = "kserve-mlserver", "iris"
READY_WITHIN = 120.0  # seconds


@pytest.fixture(scope="module")
def trained(namespace: Namespace) -> dict[str, Any]:
    """What a pod with the server's own scikit-learn has trained."""
    namespace.apply(trainer())
    namespace.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/trainer", "--timeout=120s")
    found: dict[str, Any] = json.loads(namespace.kubectl("logs", "trainer"))
    return found


def trainer() -> dict[str, Any]:
    container = {
        "name": "trainer",
        "image": IMAGE,
        "command": ["python", "-c", (FILES / "train.py").read_text()],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = {"restartPolicy": "Never", "securityContext": security, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "trainer"}, "spec": spec}


@pytest.fixture(scope="module")
def served(
    cluster: RealCluster, namespace: Namespace, trained: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Namespace]:
    """The service is Ready, so its model is loaded, although KServe's runtime has no probe."""
    folder = tmp_path_factory.mktemp("iris")
    (folder / "model.joblib").write_bytes(base64.b64decode(trained["model.joblib"]))
    cluster.apply(namespace.name, the_runtime())
    with Volume(namespace, "models").filled_from(folder):
        namespace.apply(the_service())
        namespace.wait_for_condition("Ready", "True", service=SERVICE, within=READY_WITHIN)
        eventually(lambda: get(namespace, "/v2/health/live").status == 200, "the ingress has the route")
        yield namespace
    cluster.kubectl("delete", "clusterservingruntime", RUNTIME)


def the_runtime() -> dict[str, Any]:
    runtime = kserve_runtime_bodies()[RUNTIME]
    runtime["spec"]["containers"][0]["image"] = IMAGE
    return runtime


def the_service() -> dict[str, Any]:
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": SERVICE},
        "spec": {"predictor": {"sklearn": {"protocolVersion": "v2", "storageUri": "pvc://models"}}},
    }


def get(namespace: Namespace, path: str, *arguments: str) -> Answer:
    return curl("-H", f"Host: {SERVICE}.{namespace.name}.example.com", f"{HTTP}{path}", *arguments)


def test_mlserver_serves_the_model_of_the_claim_by_the_services_name(
    served: Namespace, trained: dict[str, Any]
) -> None:
    flowers, species = trained["flowers"], trained["species"]
    tensor = {"name": "flowers", "datatype": "FP64", "shape": [len(flowers), 4], "data": flowers}

    answer = get(served, f"/v2/models/{SERVICE}/infer", "--json", json.dumps({"id": "one", "inputs": [tensor]}))

    (output,) = answer.json["outputs"]
    assert (answer.status, answer.json["model_name"], answer.json["id"]) == (200, SERVICE, "one")
    assert (output["name"], output["data"]) == ("predict", species)
    assert len(set(species)) == 3


def test_the_status_names_the_runtime_and_nothing_without_effect(served: Namespace) -> None:
    status = (served.find("inferenceservice", SERVICE) or {})["status"]

    assert status["clusterServingRuntimeName"] == RUNTIME
    assert [item for item in status["conditions"] if item["type"] == "FieldsIgnored"] == []
