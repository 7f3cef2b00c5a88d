"""KServe's runtimes, as a cluster with KServe has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from isvc_operator.api.parsing import parse_serving_runtime
from isvc_operator.api.serving_runtime import ServingRuntime
from tests.support.yaml_files import documents

FILE = Path(__file__).parents[1] / "contract" / "samples" / "runtimes.yaml"
# The type of a server is its runtime's name without the prefix, but for these.
_SERVER_TYPES = {"kserve-openvino": "ovms", "kserve-huggingfaceserver-multinode": "huggingfaceserver"}


def kserve_runtime_bodies(*, annotated: bool = True) -> dict[str, dict[str, Any]]:
    """Each by its name; older ones are not annotated with the type of their server."""
    bodies = {body["metadata"]["name"]: body for body in documents(FILE)}
    for name, body in bodies.items() if annotated else ():
        server_type = _SERVER_TYPES.get(name, name.removeprefix("kserve-"))
        body["metadata"]["annotations"] = {"serving.kserve.io/server-type": server_type}
    return bodies


def kserve_runtimes(created: str = "2026-01-01T00:00:00Z", *, annotated: bool = True) -> dict[str, ServingRuntime]:
    """The same, parsed."""
    bodies = kserve_runtime_bodies(annotated=annotated)
    for body in bodies.values():
        body["metadata"]["creationTimestamp"] = created
    return {name: parse_serving_runtime(body) for name, body in bodies.items()}
