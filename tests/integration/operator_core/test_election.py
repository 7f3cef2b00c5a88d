"""Several replicas on a real API server: which one writes, and when the next one does."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from isvc.commands.exit_codes import EXIT_FAILED
from tests.integration.operator_core.conftest import new_namespace
from tests.support.apiserver import ApiServer, Refused, install_runtime
from tests.support.namespace import Namespace, story_service
from tests.support.operator_process import OPERATOR, is_ready, metrics_of
from tests.support.ports import free_port
from tests.support.waiting import eventually

OPERATOR_MODULE = ("isvc_operator",)
TAKEOVER = 60.0  # seconds, on a busy machine; how long it takes is published, not judged here
LEASES = "leases"
LEADS = re.compile(r"^isvc_operator_leader (.*)$", re.MULTILINE)


@dataclass
class Cluster:
    """A namespace in which replicas run and serve; their lease is there."""

    server: ApiServer
    namespace: Namespace
    folder: Path

    def lease(self) -> dict[str, Any]:
        place = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace.name}/leases/isvc-operator"
        try:
            return self.server.send("GET", place)
        except Refused:  # there is none yet
            return {}

    def holder(self) -> str:
        return str(self.lease().get("spec", {}).get("holderIdentity") or "")

    def wait_for_another_than(self, identity: str) -> str:
        return eventually(lambda: self.holder() if self.holder() != identity else "", "another one leads", TAKEOVER)

    @contextlib.contextmanager
    def replica(self, *module: str, port: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
        flags = [f"--namespace={self.namespace.name}", f"--home={self.namespace.name}", "--leader-elect"]
        flags += [f"--health-port={port}"] if port else []
        env = {**os.environ, "KUBECONFIG": str(self.server.kubeconfig)}
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *(module or OPERATOR_MODULE), *flags], env=env, stdout=log, stderr=log
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def writers(self, since: int) -> list[str]:
        """The identities that wrote, in the order of their writes; those of the lease are left out."""
        events = self.server.audit_events(since)
        writes = [
            item["userAgent"].removeprefix(f"{OPERATOR}/")
            for item in events
            if item["stage"] == "RequestReceived"
            and item["userAgent"].startswith(f"{OPERATOR}/")
            and item["verb"] in ("create", "update", "patch", "delete")
            and item["objectRef"]["resource"] not in (LEASES, "selfsubjectaccessreviews")
        ]
        return [name for name, _ in itertools.groupby(writes)]

    def apply_and_wait(self, name: str) -> None:
        self.namespace.apply(story_service(name))
        eventually(lambda: self.namespace.find("deployment", f"{name}-predictor"), f"{name} is served", TAKEOVER)


@pytest.fixture
def cluster(apiserver: ApiServer, tmp_path: Path) -> Cluster:
    install_runtime(apiserver)
    return Cluster(apiserver, new_namespace(apiserver), tmp_path)


def test_the_next_one_leads_after_a_clean_stop_and_after_a_kill(cluster: Cluster) -> None:
    since, port = cluster.server.position(), free_port()
    with cluster.replica() as first:
        leader = cluster.wait_for_another_than("")
        with cluster.replica(port=port) as second:
            cluster.apply_and_wait("one")
            eventually(lambda: is_ready(port), "the caches of the one that stands by are filled")
            assert LEADS.findall(metrics_of(port)) == ["0.0"]
            first.send_signal(signal.SIGTERM)
            assert first.wait(TAKEOVER) == 0
            successor = cluster.wait_for_another_than(leader)
            cluster.apply_and_wait("two")
            assert LEADS.findall(metrics_of(port)) == ["1.0"]
            with cluster.replica():
                eventually(lambda: (cluster.folder / "log").read_text().count("standing by as") == 3, "a third one")
                second.kill()
                last = cluster.wait_for_another_than(successor)
                cluster.apply_and_wait("three")

    assert cluster.writers(since) == [leader, successor, last]
    assert cluster.lease()["spec"]["leaseTransitions"] == 3


@pytest.mark.parametrize("point", ["before-send", "before-check"])
def test_a_leader_that_is_stopped_in_a_write_until_another_one_leads_does_not_write_it(
    point: str, cluster: Cluster
) -> None:
    since = cluster.server.position()
    with cluster.replica("tests.support.stopped_operator", point) as first:
        leader = cluster.wait_for_another_than("")
        service = story_service()
        cluster.namespace.apply(service)
        _, status = os.waitpid(first.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        with cluster.replica():
            successor = cluster.wait_for_another_than(leader)
            cluster.namespace.wait_for("deployment", "torchserve-predictor")
            first.send_signal(signal.SIGCONT)
            assert first.wait(TAKEOVER) == EXIT_FAILED

    assert leader not in cluster.writers(since)[1:], cluster.writers(since)
    assert cluster.writers(since)[-1] == successor
    assert "does not hold the lease" in (cluster.folder / "log").read_text()
