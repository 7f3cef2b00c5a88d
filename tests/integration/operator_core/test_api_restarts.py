"""The API server and etcd end in the midst of the operator's writes, and start again."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from kopf.testing import KopfRunner

from isvc_operator.handlers import running
from isvc_operator.kube.requests import path_of
from tests.integration.operator_core.conftest import new_namespace
from tests.support.apiserver import ApiServer, Backend, install_crds, install_runtime, restartable
from tests.support.fake_rollouts import finish_rollouts
from tests.support.faulty_api import kubeconfig_of
from tests.support.namespace import Namespace, story_service
from tests.support.operator_process import OPERATOR, operator
from tests.support.scripted_server import says, scripted
from tests.support.waiting import eventually

WITHIN = 120.0  # seconds, on a busy machine
SERVICES = [f"s{number}" for number in range(20)]
PREDICTOR = "torchserve-predictor"
CHILDREN = ("Deployment", "Service", "Ingress")


@pytest.fixture
def backend(assets: Path) -> Iterator[Backend]:
    with restartable(assets) as started:
        install_crds(started.server)
        install_runtime(started.server)
        yield started


def delete_children(server: ApiServer, namespace: Namespace) -> None:
    """Delete all at once, so that the operator has much to write."""
    for kind in CHILDREN:
        server.send("DELETE", path_of(kind, namespace.name))


def has_all(server: ApiServer, namespace: Namespace) -> bool:
    return all(len(server.send("GET", path_of(kind, namespace.name))["items"]) == len(SERVICES) for kind in CHILDREN)


def test_services_are_right_in_the_end_after_each_restart(backend: Backend, tmp_path: Path) -> None:
    server, namespace = backend.server, new_namespace(backend.server)
    restarts = (
        (backend.apiserver, signal.SIGTERM),
        (backend.apiserver, signal.SIGKILL),
        (backend.etcd, signal.SIGKILL),
    )
    with operator(server, tmp_path / "log"):
        for name in SERVICES:
            namespace.apply(story_service(name))
        eventually(lambda: has_all(server, namespace), "all children exist", WITHIN)
        for process, number in restarts:
            since = server.position()
            delete_children(server, namespace)
            eventually(lambda: server.calls(OPERATOR, since), "the operator writes", WITHIN)  # noqa: B023
            process.end(number)
            process.start()
            backend.wait_until_ready()
            eventually(lambda: has_all(server, namespace), "all children exist again", WITHIN)
        finish_rollouts(server, namespace)
        for name in SERVICES:
            namespace.wait_for_condition("Ready", "True", service=name, within=WITHIN)


def test_another_certificate_authority_is_trusted_without_a_restart(backend: Backend, tmp_path: Path) -> None:
    server, namespace = backend.server, new_namespace(backend.server)
    with operator(server, tmp_path / "log"):
        namespace.apply_story()
        before = namespace.wait_for("ingress", "torchserve")["metadata"]["uid"]
        backend.apiserver.end()
        for file in server.ca_file.parent.glob("apiserver.*"):  # it makes another key and certificate at its start
            file.unlink()
        backend.apiserver.start()
        backend.wait_until_ready()
        server.send("DELETE", f"{path_of('Ingress', namespace.name)}/torchserve")
        eventually(
            lambda: (
                (namespace.find("ingress", "torchserve") or {"metadata": {"uid": before}})["metadata"]["uid"] != before
            ),
            "the Ingress is restored",
            WITHIN,
        )


def test_an_operator_that_ran_while_etcd_was_restored_ends_with_the_reason(backend: Backend, tmp_path: Path) -> None:
    server, namespace = backend.server, new_namespace(backend.server)
    data, snapshot = server.kubeconfig.parent / "etcd", tmp_path / "snapshot"

    def replace_data(source: Path, target: Path) -> None:
        backend.apiserver.end()
        backend.etcd.end()
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
        backend.etcd.start()
        backend.apiserver.start()
        backend.wait_until_ready()

    log = tmp_path / "log"
    with operator(server, log) as process:
        namespace.apply_story()
        namespace.wait_for("ingress", "torchserve")
        replace_data(data, snapshot)
        namespace.apply_story(minReplicas=3, maxReplicas=3)
        eventually(lambda: namespace.wait_for("deployment", PREDICTOR)["spec"]["replicas"] == 3, "it is scaled", WITHIN)
        replace_data(snapshot, data)
        eventually(lambda: process.poll() is not None, "the operator ends", WITHIN)
    assert "as after a restore of etcd" in log.read_text()
    assert "Traceback" not in log.read_text()
    with operator(server, log):
        namespace.apply_story(minReplicas=2, maxReplicas=2)
        eventually(lambda: namespace.wait_for("deployment", PREDICTOR)["spec"]["replicas"] == 2, "it is scaled", WITHIN)


async def test_a_stop_does_not_wait_for_an_api_server_that_does_not_respond(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "FINISH_SECONDS", 3600.0)
    async with scripted(says(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n")) as server:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig_of(f"http://{server.host}", tmp_path)))
        runner = KopfRunner(["run", "-A", "--standalone", "-m", "isvc_operator.handlers.operator"], timeout=WITHIN)
        await asyncio.to_thread(runner.__enter__)
        await server.asked.wait()
        await asyncio.to_thread(runner.__exit__, None, None, None)

    assert (runner.exit_code, runner.exception) == (0, None)
