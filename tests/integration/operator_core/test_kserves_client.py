"""KServe's own Python client against this operator, with the tests in the role of the Deployment controller."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

from tests.support.apiserver import ApiServer
from tests.support.build_cache import kept
from tests.support.namespace import Namespace

HERE = Path(__file__).parents[2] / "support" / "kserves_client"
REQUIREMENTS = HERE / "requirements.txt"
# The SDK stores what the file says as a secret's data, which is base64.
KEYS = "[default]\naws_access_key_id = YW4taWQ=\naws_secret_access_key = YS1rZXk=\n"


@pytest.fixture(scope="module")
def kubernetes_client() -> Path:
    """The folder with the release of the Kubernetes client that KServe's typed objects need."""

    def install(folder: Path) -> None:
        uv = Path(sys.executable).with_name("uv")
        options = ["--quiet", "--no-deps", "--require-hashes", "--target", folder, "--requirement", REQUIREMENTS]
        subprocess.run([uv, "pip", "install", *options], check=True)

    return kept("kserves-client", install, REQUIREMENTS)


def test_a_service_is_created_patched_replaced_and_deleted_by_kserves_client(
    running_operator: None, apiserver: ApiServer, namespace: Namespace, kubernetes_client: Path, tmp_path: Path
) -> None:
    keys = tmp_path / "credentials"
    keys.write_text(KEYS)
    command = [sys.executable, "-W", "ignore", HERE / "user.py", apiserver.kubeconfig, namespace.name, keys]
    environment = {**os.environ, "PYTHONPATH": str(kubernetes_client)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as user:
        assert user.stdin is not None
        assert user.stdout is not None
        assert user.stdout.readline() == "False\n"
        _roll_out(namespace, user.stdin)
        assert user.stdout.readline() == "ready at 1\n"
        assert user.stdout.readline() == f"http://torchserve.{namespace.name}.example.com\n"

        assert user.stdout.readline() == "False\n"
        _roll_out(namespace, user.stdin)
        assert user.stdout.readline() == "ready at 2\n"
        assert _resources(namespace) == {
            "limits": {"cpu": "500m", "memory": "2Gi"},
            "requests": {"cpu": "100m", "memory": "2Gi"},
        }

        assert user.stdout.readline() == "False\n"
        _roll_out(namespace, user.stdin)
        assert user.stdout.readline() == "ready at 3\n"
        (initializer,) = namespace.wait_for("deployment", "torchserve-predictor")["spec"]["template"]["spec"][
            "initContainers"
        ]
        assert user.stdout.readline() == "0\n"
    assert user.returncode == 0
    variables = {item["name"]: item.get("value", item.get("valueFrom")) for item in initializer["env"]}
    secret = variables["AWS_ACCESS_KEY_ID"]["secretKeyRef"]["name"]
    assert secret.startswith("kserve-secret-")
    assert variables["S3_ENDPOINT"] == "minio:9000"


def _resources(namespace: Namespace) -> Any:
    pod = namespace.wait_for("deployment", "torchserve-predictor")["spec"]["template"]["spec"]
    return pod["containers"][0]["resources"]


def _roll_out(namespace: Namespace, user: IO[str]) -> None:
    """Play the rollout of what the user has just written, and let the user go on."""
    namespace.wait_for_condition("Ready", "Unknown")
    namespace.play_finished_rollout()
    user.write("\n")
    user.flush()
