"""The least that any program could take: a client creates the children that it already knows, and nothing else.

Nothing is read or decided, no service and no status is written. What is left is the cluster's own work for the objects
and their pods, on the same processors.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from isvc.commands import main
from tests.bench.scale.cluster import cpu_seconds
from tests.bench.scale.services import runtime, service
from tests.bench.scale.trial import NAMESPACE, Trial, is_rolled_out, yardstick
from tests.support.waiting import eventually

_PATHS = {"Deployment": "/apis/apps/v1", "Service": "/api/v1", "Ingress": "/apis/networking.k8s.io/v1"}
_PLURALS = {"Deployment": "deployments", "Service": "services", "Ingress": "ingresses"}
_NAME = "model-name"
_TIMEOUT = 1200.0  # seconds


@dataclass(frozen=True)
class Least:
    """Seconds from the first request of the client; CPU in seconds."""

    services: int
    children: float
    available: float
    api_server_cpu: float
    yardstick: float


def least(mine: Trial, count: int) -> Least:
    """Create the children of so many services on the cluster of a trial whose program does not run."""
    children = _rendered()
    measured, cpu, began = yardstick(), cpu_seconds(mine.cluster.api_server), time.time()
    for child in children:
        text, kind = json.dumps(child), child["kind"]
        copies = [json.loads(text.replace(_NAME, f"model-{number}")) for number in range(count)]
        mine.client.create_all(f"{_PATHS[kind]}/namespaces/{NAMESPACE}/{_PLURALS[kind]}", copies)
    made = time.time() - began

    def available() -> bool:
        return sum(map(is_rolled_out, list(mine.deployments.items.values()))) >= count

    eventually(available, "all Deployments are rolled out", _TIMEOUT)
    until = time.time() - began
    api_server = cpu_seconds(mine.cluster.api_server) - cpu
    return Least(count, round(made, 1), round(until, 1), round(api_server, 1), measured)


def _rendered() -> list[dict[str, Any]]:
    """The children of one service, as `isvc render` prints them."""
    with tempfile.TemporaryDirectory() as folder:
        file, printed = Path(folder) / "service.yaml", io.StringIO()
        file.write_text(yaml.safe_dump_all([runtime(), service(_NAME, NAMESPACE)]))
        with contextlib.redirect_stdout(printed):
            assert main(["render", str(file)]) == 0
    return list(yaml.safe_load_all(printed.getvalue()))
