"""An API server that refuses, fails, is slow or breaks off, and an operator that lives with it."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from isvc_operator.kube import client, requests
from isvc_operator.kube.client import connect
from isvc_operator.kube.errors import KubeError
from tests.support.apiserver import ApiServer, Call, install_runtime
from tests.support.faulty_api import Arrival, Fault, FaultyApi, faulty, kubeconfig_of, refused
from tests.support.namespace import Namespace, story_service
from tests.support.operator_process import OPERATOR, is_ready, metrics_of
from tests.support.ports import free_port
from tests.support.scripted_server import Behaviour, Visitor, scripted
from tests.support.waiting import eventually

WITHIN = 150.0  # seconds; retries are seldom when many have failed, and the machine may be busy
PARALLEL = 8
TOO_MANY = "Too many requests, please try again later.\n"  # the API server's own words
RETRYING = r'isvc_operator_queue_retrying\{result="\w+"\}'


@dataclass
class Cluster:
    """An operator whose API server can fail; ``port`` has its metrics."""

    api: FaultyApi
    port: int

    def services_in(self, namespace: Namespace, count: int) -> list[str]:
        """Apply so many services; returns their names."""
        names = [f"s{number}" for number in range(count)]
        for name in names:
            namespace.apply(story_service(name))
        return names

    def wait_until_right(self, namespace: Namespace, names: list[str]) -> None:
        """Wait until each service has its children, and a status that says so."""
        for name in names:
            for kind, child in (
                ("deployment", f"{name}-predictor"),
                ("service", f"{name}-predictor"),
                ("ingress", name),
            ):
                eventually(lambda: namespace.find(kind, child), f"{kind} {child} exists", WITHIN)  # noqa: B023
            namespace.wait_for_condition("Ready", "Unknown", "WaitingForDeployment", service=name, within=WITHIN)

    def metric(self, pattern: str) -> float:
        """The sum of the samples that match."""
        return sum(float(value) for value in re.findall(rf"^{pattern} (\S+)$", metrics_of(self.port), re.M))


@pytest.fixture(scope="module")
def cluster(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    install_runtime(apiserver)
    folder, port = tmp_path_factory.mktemp("faults"), free_port()
    with faulty(apiserver, folder) as api, (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "isvc_operator", f"--health-port={port}"],
            env={**os.environ, "KUBECONFIG": str(api.kubeconfig), "PARALLEL": str(PARALLEL)},
            stdout=log,
            stderr=log,
        )
        try:
            running = Cluster(api, port)
            eventually(lambda: is_ready(port), f"the operator is ready; its log is {folder / 'log'}", WITHIN)
            yield running
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(WITHIN)


def of_operator(arrival: Arrival) -> bool:
    return arrival.agent.startswith(OPERATOR)


def test_a_server_that_is_busy_makes_requests_pause_and_is_asked_again(cluster: Cluster, namespace: Namespace) -> None:
    refusals = list[Arrival]()

    def busy(arrival: Arrival) -> Fault | None:
        if not of_operator(arrival):
            return None
        refusals.append(arrival)
        return Fault(429, TOO_MANY, retry_after="1")

    with cluster.api.failing(busy):
        names = cluster.services_in(namespace, 12)
        eventually(lambda: cluster.metric("isvc_operator_api_pause_seconds") > 0, "the metrics tell of the pause")
        eventually(lambda: len(refusals) > len(set(refusals)), "it asked again", WITHIN)
        counted = cluster.metric(r'isvc_operator_api_requests_total\{code="429",verb="\w+"\}')
    cluster.wait_until_right(namespace, names)

    assert counted > 0


def test_a_server_that_fails_in_every_way_is_asked_again_until_all_is_right(
    cluster: Cluster, namespace: Namespace
) -> None:
    ways = itertools.cycle(
        [
            refused(500, "etcdserver: request timed out"),
            Fault(502, "<html>bad gateway</html>"),
            Fault(503, "upstream connect error"),
            refused(504, "the request did not complete within the allotted timeout", retry_after="1"),
            Fault(200, "<html>log in</html>"),
            Fault(401, '{"kind": "Status", "message": "Unauthorized"}'),
            refused(409, "Operation cannot be fulfilled on resourcequotas: the object has been modified"),
            Fault(cut=True),
        ]
    )
    failed = list[Arrival]()
    # Services that other tests have left may fail for as long as the API server runs.
    eventually(lambda: cluster.metric("isvc_operator_queue_depth") == 0, "all services were reconciled", WITHIN)
    others = cluster.metric(RETRYING)

    def failing(arrival: Arrival) -> Fault | None:
        if not of_operator(arrival) or len(failed) >= 60:
            return None
        failed.append(arrival)
        return next(ways)

    with cluster.api.failing(failing):
        names = cluster.services_in(namespace, 8)
        eventually(lambda: len(failed) >= 60, "60 requests have failed", WITHIN)
        assert cluster.metric(RETRYING) > others
        cluster.wait_until_right(namespace, names)

    assert cluster.metric(r'isvc_operator_api_requests_total\{code="50[0234]",verb="\w+"\}') > 0
    eventually(lambda: cluster.metric(RETRYING) <= others, "nothing is left to retry", WITHIN)


def test_a_webhook_that_fails_for_one_kind_of_one_namespace_is_named_and_others_go_on(
    cluster: Cluster, namespace: Namespace, another_namespace: Namespace
) -> None:
    message = 'failed calling webhook "mutate.example.com": connection refused'

    def without_webhook(arrival: Arrival) -> Fault | None:
        hit = of_operator(arrival) and f"/{namespace.name}/deployments" in arrival.path
        return refused(500, message, retry_after="1") if hit else None

    with cluster.api.failing(without_webhook):
        refused_here = cluster.services_in(namespace, 1)
        cluster.wait_until_right(another_namespace, cluster.services_in(another_namespace, 2))
        condition = namespace.wait_for_condition("Ready", "False", "ReconcileFailed", service="s0", within=WITHIN)
        assert condition["message"] == f"Deployment s0-predictor: {message}"
        assert cluster.metric("isvc_operator_api_pause_seconds") == 0
    cluster.wait_until_right(namespace, refused_here)


def test_a_quota_that_is_used_up_is_named_and_others_go_on(
    cluster: Cluster, namespace: Namespace, another_namespace: Namespace
) -> None:
    hard = {"count/deployments.apps": "0"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": hard}}
    path = f"/api/v1/namespaces/{namespace.name}/resourcequotas"
    server = cluster.api.server
    server.send("POST", path, quota)
    status = {"status": {"hard": hard, "used": hard}}
    server.send("PATCH", f"{path}/none/status", status, content=requests.MERGE_PATCH)

    refused_here = cluster.services_in(namespace, 1)
    condition = namespace.wait_for_condition("Ready", "False", "ReconcileFailed", service="s0", within=WITHIN)
    cluster.wait_until_right(another_namespace, cluster.services_in(another_namespace, 1))
    server.send("DELETE", f"{path}/none")
    cluster.wait_until_right(namespace, refused_here)

    assert "exceeded quota: none" in condition["message"]
    assert cluster.metric(refusals("admission", "create", "deployments")) > 0
    assert cluster.metric(refusals("authorization")) == 0


def test_a_server_that_takes_two_seconds_for_each_request_is_waited_for(cluster: Cluster, namespace: Namespace) -> None:
    with cluster.api.failing(lambda arrival: Fault(delay=2.0) if of_operator(arrival) else None):
        cluster.wait_until_right(namespace, cluster.services_in(namespace, 4))


def test_nothing_is_created_in_a_namespace_that_is_being_deleted(
    cluster: Cluster, namespace: Namespace, another_namespace: Namespace
) -> None:
    names = cluster.services_in(namespace, 2)
    cluster.wait_until_right(namespace, names)
    server = cluster.api.server
    since = server.position()
    server.send("DELETE", f"/api/v1/namespaces/{namespace.name}")
    for name in names:  # as the namespace controller does, which has deleted no service yet
        for kind in ("deployments", "services"):
            group = "/apis/apps/v1" if kind == "deployments" else "/api/v1"
            server.send("DELETE", f"{group}/namespaces/{namespace.name}/{kind}/{name}-predictor")
    cluster.wait_until_right(another_namespace, cluster.services_in(another_namespace, 1))
    calls = calls_in(server, namespace, since)
    assert {call.subresource for call in calls} == {""}
    assert len(calls) <= 4, calls  # one of each child, until the first refusal has arrived
    position = server.position()
    namespace.kubectl("annotate", "inferenceservice", *names, "mine=changed")
    cluster.wait_until_right(another_namespace, cluster.services_in(another_namespace, 2))
    assert calls_in(server, namespace, position) == []
    assert cluster.metric(refusals("authorization")) == 0


def refusals(by: str, verb: str = r"\w+", resource: str = r"\w+") -> str:
    """The pattern of the metric."""
    return rf'isvc_operator_api_requests_refused_total\{{by="{by}",resource="{resource}",verb="{verb}"\}}'


def calls_in(server: ApiServer, namespace: Namespace, since: int) -> list[Call]:
    return [call for call in server.calls(OPERATOR, since) if call.namespace == namespace.name]


# --- one request ---------------------------------------------------------------------------------------------


async def silent(visitor: Visitor) -> None:
    """Accepts the connection, and says nothing: neither of TLS nor of HTTP."""
    await visitor.reader.read()


async def cut_off(visitor: Visitor) -> None:
    await visitor.request()
    await visitor.say(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{"kind": "Ser')


async def cut_off_in_its_head(visitor: Visitor) -> None:
    await visitor.request()
    await visitor.say(b"HTTP/1.1 200 O")


async def slow_body(visitor: Visitor) -> None:
    """The head comes at once, and then nothing."""
    await visitor.request()
    await visitor.say(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{"kind": "Ser')
    await visitor.reader.read()


async def reset(visitor: Visitor) -> None:
    await visitor.request()
    visitor.reset()


@pytest.mark.parametrize(
    ("scheme", "behaviour"),
    [
        pytest.param("https", silent, id="a TLS handshake that hangs"),
        pytest.param("http", silent, id="no response"),
        pytest.param("http", slow_body, id="a body that does not go on"),
        pytest.param("http", cut_off, id="a body that is cut off"),
        pytest.param("http", cut_off_in_its_head, id="a head that is cut off"),
        pytest.param("http", reset, id="a reset"),
    ],
)
async def test_a_request_ends_whatever_the_connection_does(
    scheme: str, behaviour: Behaviour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "API_RESPONSE_SECONDS", 0.5)
    async with scripted(behaviour) as server:
        kubeconfig = kubeconfig_of(f"{scheme}://{server.host}", tmp_path)
        async with connect(str(kubeconfig)) as api:
            with pytest.raises(KubeError, match=r"^no response from the API server: ") as caught:
                await api.send(requests.get("Service", "models", "bert"))

    assert caught.value.is_transient
