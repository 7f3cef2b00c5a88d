"""The API server and etcd end in the midst of the operator's writes, and start again."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from isvc_operator.kube.requests import path_of
from tests.integration.operator_core.conftest import RUNTIME, new_namespace
from tests.support.apiserver import ApiServer, Backend, install_crds, restartable
from tests.support.namespace import Namespace, story_service
from tests.support.operator_process import OPERATOR, operator
from tests.support.played_rollouts import play_rollouts
from tests.support.waiting import eventually

WITHIN = 120.0  # seconds, on a busy machine
SERVICES = [f"s{number}" for number in range(20)]
CHILDREN = ("Deployment", "Service", "Ingress")


@pytest.fixture
def backend(assets: Path) -> Iterator[Backend]:
    with restartable(assets) as started:
        install_crds(started.server)
        started.server.kubectl("apply", f"--filename={RUNTIME}")
        yield started


def delete_children(server: ApiServer, namespace: Namespace) -> None:
    """Delete all at once, so that the operator has much to write."""
    for kind in CHILDREN:
        server.send("DELETE", path_of(kind, namespace.name))


def has_all(server: ApiServer, namespace: Namespace) -> bool:
    return all(len(server.send("GET", path_of(kind, namespace.name))["items"]) == len(SERVICES) for kind in CHILDREN)


@pytest.mark.slow
def test_services_are_right_in_the_end_after_each_restart(backend: Backend, tmp_path: Path) -> None:
    server, namespace = backend.server, new_namespace(backend.server)
    restarts = (
        (backend.apiserver, signal.SIGTERM),
        (backend.apiserver, signal.SIGKILL),
        (backend.etcd, signal.SIGKILL),
    )
    with operator(server, tmp_path / "log"):
        for name in SERVICES:
            service = story_service()
            service["metadata"]["name"] = name
            namespace.apply(service)
        eventually(lambda: has_all(server, namespace), "all children exist", WITHIN)
        for process, number in restarts:
            since = server.position()
            delete_children(server, namespace)
            eventually(lambda: server.calls(OPERATOR, since), "the operator writes", WITHIN)  # noqa: B023
            process.end(number)
            process.start()
            backend.wait_until_ready()
            eventually(lambda: has_all(server, namespace), "all children exist again", WITHIN)
        play_rollouts(server, namespace)
        for name in SERVICES:
            namespace.wait_for_condition("Ready", "True", service=name, within=WITHIN)
