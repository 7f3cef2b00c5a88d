"""A change of what many services share, on a real API server: so many of them get new pods in a minute.

Nothing runs pods here, so a test plays the rollouts. With a thousand services: `make bench ARGS=scale`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from isvc_operator.kube.requests import path_of
from isvc_operator.manifests import Manifest
from tests.integration.operator_core.conftest import new_namespace
from tests.support.apiserver import ApiServer
from tests.support.fake_rollouts import finish_rollouts
from tests.support.namespace import Namespace
from tests.support.operator_process import OPERATOR, operator
from tests.support.waiting import eventually

NAMES = [f"model-{number}" for number in range(12)]
RUNTIME = "shared"
SLOWLY, QUICKLY = 1, 120  # services a minute; nothing here takes a minute
WITHIN = 60.0  # seconds


@dataclass(frozen=True)
class Team:
    """A namespace with services that share a runtime."""

    server: ApiServer
    namespace: Namespace

    def apply_runtime(self, image: str) -> None:
        container = {"name": "kserve-container", "image": image}
        self.namespace.apply(
            {
                "apiVersion": "serving.kserve.io/v1alpha1",
                "kind": "ServingRuntime",
                "metadata": {"name": RUNTIME},
                "spec": {"supportedModelFormats": [{"name": "pytorch"}], "containers": [container]},
            }
        )

    def apply(self, name: str, *args: str) -> None:
        model = {"modelFormat": {"name": "pytorch"}, "runtime": RUNTIME, "storageUri": "pvc://models", "args": [*args]}
        self.namespace.apply(
            {
                "apiVersion": "serving.kserve.io/v1beta1",
                "kind": "InferenceService",
                "metadata": {"name": name},
                "spec": {"predictor": {"minReplicas": 1, "model": model}},
            }
        )

    def are_ready(self) -> bool:
        finish_rollouts(self.server, self.namespace)
        return self.that_say("Ready", "True") == {*NAMES}

    def queued(self) -> set[str]:
        return self.that_say("PodsOutdated", "True", "RolloutQueued")

    def that_say(self, type_: str, status: str, reason: str | None = None) -> set[str]:
        """The services with this condition for their newest generation."""
        services = self.server.send("GET", path_of("InferenceService", self.namespace.name))["items"]
        said = {(item["metadata"]["name"], *found) for item in services for found in _said(item)}
        return {name for name, *found in said if found == [type_, status, reason]}

    def with_image(self, image: str) -> set[str]:
        """The services whose pods are to have it."""
        deployments = self.server.send("GET", path_of("Deployment", self.namespace.name))["items"]
        return {
            item["metadata"]["name"].removesuffix("-predictor")
            for item in deployments
            if item["spec"]["template"]["spec"]["containers"][0]["image"] == image
        }

    def wait_until_begun(self, count: int, image: str) -> set[str]:
        """Wait until so many have begun and all others say that they wait; returns those that have."""

        def settled() -> set[str] | None:
            begun = self.with_image(image)
            return begun if len(begun) >= count and self.queued() == {*NAMES} - begun else None

        begun = eventually(settled, f"{count} of them get {image}", WITHIN, lambda: f"queued: {self.queued()}")
        assert len(begun) == count
        return begun

    def changes_of_deployments(self, since: int) -> int:
        """How often the operator has applied a Deployment."""
        return sum(
            event["stage"] == "RequestReceived"
            and event["userAgent"].startswith(OPERATOR)
            and event["verb"] == "patch"
            and "force=true" in event["requestURI"]
            and event["objectRef"].get("resource") == "deployments"
            and event["objectRef"].get("namespace") == self.namespace.name
            for event in self.server.audit_events(since)
        )


def _said(service: Manifest) -> Iterator[tuple[str, str, str | None]]:
    status = service.get("status", {})
    if status.get("observedGeneration") == service["metadata"]["generation"]:
        yield from ((item["type"], item["status"], item.get("reason")) for item in status["conditions"])


@pytest.fixture
def team(apiserver: ApiServer) -> Team:
    return Team(apiserver, new_namespace(apiserver))


def set_rate(folder: Path, per_minute: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "inferenceService").write_text(json.dumps({"rolloutsPerMinute": per_minute}))


def test_services_follow_a_runtime_at_the_rate_and_an_edited_one_at_once(team: Team, tmp_path: Path) -> None:
    log, config = tmp_path / "log", tmp_path / "config"
    flags = (f"--namespace={team.namespace.name}", f"--config-dir={config}")
    set_rate(config, SLOWLY)
    team.apply_runtime("server:1")
    for name in NAMES:
        team.apply(name)

    with operator(team.server, log, *flags):
        eventually(team.are_ready, "all serve", WITHIN)
        assert team.with_image("server:1") == {*NAMES}, "none of them waits at first"

        team.apply_runtime("server:2")
        begun = team.wait_until_begun(1, "server:2")
        edited = min({*NAMES} - begun)
        team.apply(edited, "--debug")
        assert team.wait_until_begun(2, "server:2") == begun | {edited}

    with operator(team.server, log, *flags):
        begun |= {edited, *team.wait_until_begun(3, "server:2")}
        since = team.server.position()
        set_rate(config, QUICKLY)
        eventually(lambda: team.with_image("server:2") == {*NAMES}, "the others follow", WITHIN)
        assert team.changes_of_deployments(since) == len(NAMES) - len(begun) == 9, "each is applied once"

        eventually(lambda: team.are_ready() and not team.queued(), "all say that they serve with it", WITHIN)
