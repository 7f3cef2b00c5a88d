"""An operator with a service that is ready and one that is refused, for tests of what it reports of itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.support.apiserver import ApiServer, install_runtime
from tests.support.namespace import Namespace
from tests.support.operator_process import got, is_ready, operator
from tests.support.ports import free_port
from tests.support.waiting import eventually


@dataclass(frozen=True)
class Monitored:
    """``ready`` and ``refused`` are the namespaces of the two services."""

    port: int
    log: Path
    ready: str
    refused: str

    def get(self, path: str) -> tuple[int, str]:
        return got(self.port, path)

    def samples(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """The metrics: values by name and labels."""
        families = text_string_to_metric_families(self.get("/metrics")[1])
        return {
            (item.name, tuple(sorted(item.labels.items()))): item.value
            for family in families
            for item in family.samples
        }


@contextlib.contextmanager
def monitored_operator(
    server: ApiServer, folder: Path, ready: Namespace, refused: Namespace, *flags: str
) -> Iterator[Monitored]:
    """The operator of these two namespaces alone, as other tests of the API server have services, too."""
    install_runtime(server)
    log, port = folder / "operator.log", free_port()
    watched = (f"--namespace={ready.name}", f"--namespace={refused.name}")
    with operator(server, log, f"--health-port={port}", "--log-format=json", *flags, *watched):
        found = Monitored(port, log, ready.name, refused.name)
        eventually(lambda: is_ready(port), "the operator is ready", otherwise=log.read_text)
        ready.apply_story()
        ready.play_finished_rollout()
        ready.wait_for_condition("Ready", "True")
        # Its Service is someone else's, so the reconcile fails and is retried.
        refused.apply(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "torchserve-predictor"},
                "spec": {"ports": [{"name": "mine", "port": 80, "targetPort": 9}]},
            }
        )
        refused.apply_story()
        refused.wait_for_condition("Ready", "False")
        yield found
