"""A service that was ready and stops serving is told from one that starts."""

from __future__ import annotations

from hack.release.version import current_version
from tests.support.diagnose_output import assert_diagnosed
from tests.support.namespace import Namespace
from tests.support.waiting import eventually

NAME = "hangs"
# Ready as long as a file is there.
SERVER = {
    "name": "kserve-container",
    "image": f"localhost/isvc-operator/storage-initializer:{current_version()}",
    "command": ["python", "-c", "import time; open('/state/ready', 'w'); time.sleep(3600)"],
    "readinessProbe": {"exec": {"command": ["cat", "/state/ready"]}, "periodSeconds": 1, "failureThreshold": 1},
    "volumeMounts": [{"name": "state", "mountPath": "/state"}],
    "ports": [{"containerPort": 8080}],
}
SERVICE = {
    "apiVersion": "serving.kserve.io/v1beta1",
    "kind": "InferenceService",
    "metadata": {"name": NAME},
    "spec": {"predictor": {"containers": [SERVER], "volumes": [{"name": "state", "emptyDir": {}}]}},
}
MOVE = "import os, sys; os.rename(*sys.argv[1:])"


def test_a_server_that_hangs_has_lost_its_readiness_until_it_responds_again(namespace: Namespace) -> None:
    namespace.apply(SERVICE)
    namespace.wait_for_condition("Ready", "True", service=NAME)

    move(namespace, "/state/ready", "/state/gone")

    lost = namespace.wait_for_condition("Ready", "False", "ReadinessLost", service=NAME)
    assert "it was ready until" in lost["message"]
    eventually(lambda: "No such file" in namespace.condition("Ready", NAME)["message"], "the probe's answer is told")
    assert_diagnosed(namespace, NAME, "ReadinessLost", "its readiness probe has failed since")
    assert ("Warning", "ReadinessLost") in events_on(namespace)

    move(namespace, "/state/gone", "/state/ready")

    namespace.wait_for_condition("Ready", "True", service=NAME)


def move(namespace: Namespace, source: str, target: str) -> None:
    namespace.kubectl("exec", f"deployment/{NAME}-predictor", "--", "python", "-c", MOVE, source, target)


def events_on(namespace: Namespace) -> list[tuple[str, ...]]:
    """Types and reasons."""
    said = namespace.kubectl(
        "get", "events", f"--field-selector=involvedObject.name={NAME}",
        "--output=jsonpath={range .items[*]}{.type} {.reason}{'\\n'}{end}",
    )  # fmt: skip
    return [tuple(line.split()) for line in said.splitlines()]
