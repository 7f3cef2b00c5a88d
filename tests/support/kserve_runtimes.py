"""KServe's runtimes, as a cluster with KServe has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from isvc_operator.api.serving_runtime import ServingRuntime, parse_serving_runtime

FILE = Path(__file__).with_suffix(".yaml")


def kserve_runtime_bodies() -> dict[str, dict[str, Any]]:
    """Each by its name."""
    return {body["metadata"]["name"]: body for body in yaml.safe_load_all(FILE.read_text())}


def kserve_runtimes(created: str = "2026-01-01T00:00:00Z", *, annotated: bool = True) -> dict[str, ServingRuntime]:
    """Each by its name; older ones are not annotated with the type of their server."""
    runtimes = {}
    for name, body in kserve_runtime_bodies().items():
        body["metadata"]["creationTimestamp"] = created
        if not annotated:
            del body["metadata"]["annotations"]
        runtimes[name] = parse_serving_runtime(body)
    return runtimes


def kserve_runtime(name: str, *, annotated: bool = True) -> ServingRuntime:
    """One of them."""
    return kserve_runtimes(annotated=annotated)[name]
