"""A namespace of a cluster, with the words that the tests speak."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.support.waiting import eventually
from tests.support.yaml_files import document

STORY = Path(__file__).parents[2] / "examples" / "bert" / "inferenceservice.yaml"


class Cluster(Protocol):
    """The bare API server of the integration tests, or a whole cluster."""

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Standard output of kubectl."""
        ...

    def apply(self, namespace: str, manifest: dict[str, Any]) -> dict[str, Any]:
        """The object as it is stored, once it is applied."""
        ...

    def find(self, namespace: str, kind: str, name: str) -> dict[str, Any] | None:
        """The object, if there is one."""
        ...


def story_service(name: str = "torchserve") -> dict[str, Any]:
    """The InferenceService of the sample, by this name."""
    service: dict[str, Any] = document(STORY)
    service["metadata"]["name"] = name
    return service


def small_service() -> dict[str, Any]:
    """The same, with a request of a tenth of a processor: several fit onto the node of a cluster."""
    service = story_service()
    service["spec"]["predictor"]["model"]["resources"]["requests"]["cpu"] = "100m"
    return service


@dataclass(frozen=True)
class Namespace:
    """A namespace with the words that the tests speak."""

    server: Cluster
    name: str

    def apply(self, *objects: dict[str, Any]) -> None:
        for item in objects:
            self.server.apply(self.name, item)

    def apply_story(self, **predictor: Any) -> dict[str, Any]:
        """Apply the story's service, its predictor changed by ``predictor``."""
        service: dict[str, Any] = story_service()
        service["spec"]["predictor"].update(predictor)
        self.apply(service)
        return service

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.server.kubectl(f"--namespace={self.name}", *arguments, stdin=stdin)

    def find(self, kind: str, name: str) -> dict[str, Any] | None:
        return self.server.find(self.name, kind, name)

    def wait_for(self, kind: str, name: str) -> dict[str, Any]:
        return eventually(lambda: self.find(kind, name), f"{kind} {name} exists")

    def condition(self, type_: str, service_name: str = "torchserve") -> dict[str, Any]:
        service = self.find("inferenceservice", service_name) or {}
        conditions = service.get("status", {}).get("conditions", [])
        return next((item for item in conditions if item["type"] == type_), {})

    def wait_for_condition(
        self,
        type_: str,
        status: str,
        reason: str | None = None,
        service: str = "torchserve",
        within: float = 60.0,
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def matches() -> dict[str, Any] | None:
            nonlocal found
            found = self.condition(type_, service)
            fits = found.get("status") == status and reason in (None, found.get("reason"))
            return found if fits else None

        what = f"{type_} of {service} is {status} {reason or ''}"
        return eventually(matches, what, within, lambda: f"it is {found}")

    def wait_until_ready(self) -> None:
        """Wait until the service is ready and its Event, which is written last, is there."""
        self.wait_for_condition("Ready", "True")
        query = ("get", "events", "--field-selector=reason=InferenceServiceReady", "--output=name")
        eventually(lambda: self.kubectl(*query), "the Event of the service that is ready")

    def play_finished_rollout(self, name: str = "torchserve-predictor") -> None:
        """Do what the Deployment controller does when all pods are up."""
        deployment = self.wait_for("deployment", name)
        status = {
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": 1,
            "updatedReplicas": 1,
            "readyReplicas": 1,
            "availableReplicas": 1,
        }
        self.patch_status("deployment", name, status)

    def patch_status(self, kind: str, name: str, status: dict[str, Any]) -> None:
        patch = json.dumps({"status": status})
        self.kubectl("patch", kind, name, "--subresource=status", "--type=merge", f"--patch={patch}")
