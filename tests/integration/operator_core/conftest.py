"""An operator on a real API server, and a namespace for each test."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.apiserver import ApiServer
from tests.support.operator_process import eventually, operator

ROOT = Path(__file__).parents[3]
STORY = ROOT / "examples" / "bert" / "inferenceservice.yaml"
RUNTIME = ROOT / "manifests" / "runtimes" / "kserve-torchserve.yaml"
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Namespace:
    """A namespace with the words that the tests speak."""

    server: ApiServer
    name: str

    def apply(self, *objects: dict[str, Any]) -> None:
        self.kubectl("apply", "--filename=-", stdin="\n---\n".join(json.dumps(item) for item in objects))

    def apply_story(self, **predictor: Any) -> dict[str, Any]:
        """Apply the story's service, its predictor changed by ``predictor``."""
        service: dict[str, Any] = yaml.safe_load(STORY.read_text())
        service["spec"]["predictor"].update(predictor)
        self.apply(service)
        return service

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.server.kubectl(f"--namespace={self.name}", *arguments, stdin=stdin)

    def find(self, kind: str, name: str) -> dict[str, Any] | None:
        items = self.server.get(kind, f"--namespace={self.name}")["items"]
        return next((item for item in items if item["metadata"]["name"] == name), None)

    def wait_for(self, kind: str, name: str) -> dict[str, Any]:
        return eventually(lambda: self.find(kind, name), f"{kind} {name} exists")

    def condition(self, type_: str) -> dict[str, Any]:
        service = self.find("inferenceservice", "torchserve") or {}
        conditions = service.get("status", {}).get("conditions", [])
        return next((item for item in conditions if item["type"] == type_), {})

    def wait_for_condition(self, type_: str, status: str, reason: str | None = None) -> dict[str, Any]:
        def matches() -> dict[str, Any] | None:
            found = self.condition(type_)
            fits = found.get("status") == status and reason in (None, found.get("reason"))
            return found if fits else None

        return eventually(matches, f"{type_} is {status} {reason or ''} (it is {self.condition(type_)})")

    def play_finished_rollout(self) -> None:
        """Do what the Deployment controller does when all pods are up."""
        deployment = self.wait_for("deployment", "torchserve-predictor")
        status = {
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": 1,
            "updatedReplicas": 1,
            "readyReplicas": 1,
            "availableReplicas": 1,
        }
        self.patch_status("deployment", "torchserve-predictor", status)

    def patch_status(self, kind: str, name: str, status: dict[str, Any]) -> None:
        patch = json.dumps({"status": status})
        self.kubectl("patch", kind, name, "--subresource=status", "--type=merge", f"--patch={patch}")


@pytest.fixture(scope="module")
def operator_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operator") / "operator.log"


@pytest.fixture(scope="module")
def running_operator(apiserver: ApiServer, operator_log: Path) -> Iterator[None]:
    apiserver.kubectl("apply", f"--filename={RUNTIME}")
    with operator(apiserver, operator_log):
        yield


@pytest.fixture
def namespace(apiserver: ApiServer) -> Namespace:
    return _new_namespace(apiserver)


@pytest.fixture
def another_namespace(apiserver: ApiServer) -> Namespace:
    return _new_namespace(apiserver)


def _new_namespace(server: ApiServer) -> Namespace:
    name = f"team-{next(_numbers)}"
    server.kubectl("create", "namespace", name)
    return Namespace(server, name)
