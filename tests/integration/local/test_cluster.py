"""What a laptop shows of its services is what a cluster would: objects, statuses, Events, logs, metrics, responses."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from isvc.limits import KEPT_EVENTS, OUTPUT_LINE_BYTES
from isvc.run import caller as caller_module
from isvc.run import cluster as cluster_module
from isvc.run.check import check
from isvc.run.children import render_services
from isvc.run.cluster import LocalCluster, local_cluster
from isvc.run.documents import YamlText
from isvc.run.ingress import ingress
from isvc.run.processes import process_group
from isvc.run.run import serve
from isvc.run.service import Settings
from isvc.view.diagnosis import diagnose
from isvc.view.service import view_of
from isvc.view.source import ContainerKey, LogOptions, ServiceRequest
from isvc.view.values import ContainerState, DownloadProgress, HealthStatus
from isvc_operator.config import OperatorConfig
from isvc_operator.errors import OperatorError
from isvc_operator.manifests import ServiceKey
from tests.support.isvc_process import is_running
from tests.support.local_services import Silent, parsed, runtime, service
from tests.support.ports import free_port

LIVE = {
    "httpGet": {"path": "/v2/health/live", "port": 8080},
    "periodSeconds": 1,
    "timeoutSeconds": 20,
    "failureThreshold": 1,
}
SERVER = "kserve-container"


@contextlib.asynccontextmanager
async def running(folder: Path, *documents: Mapping[str, Any]) -> AsyncIterator[LocalCluster]:
    """Run the services; the claim ``models`` is that folder. At the end no process and no folder is left."""
    settings = Settings({"models": folder}, free_port(), dict(os.environ), {})
    async with process_group(dict(os.environ), Silent()) as group:
        async with local_cluster(group, settings) as cluster:
            services, invalid = render_services(parsed(*documents), (), OperatorConfig(), tls=False)
            assert invalid == []
            await cluster.check(services)
            async with ingress(cluster.routes, settings.http_port):
                cluster.apply(services)
                yield cluster
        assert group.running == []
        left = group.folder
    assert not left.exists()


def key(name: str) -> ServiceKey:
    return ServiceKey("default", name)


async def until_settled(cluster: LocalCluster) -> None:
    """Wait until each service is ready or has failed."""
    async with asyncio.timeout(120):
        await cluster.until(lambda: all(service.is_settled for service in cluster.services.values()))


def conditions(cluster: LocalCluster, name: str) -> dict[str, tuple[str, str]]:
    """Type → status and reason."""
    related = cluster.related(key(name))
    assert related
    return {item["type"]: (item["status"], item.get("reason", "")) for item in related.service["status"]["conditions"]}


def other(name: str, *command: str) -> dict[str, Any]:
    """A runtime with another program, for services that name it."""
    body = runtime(name, command=list(command))
    body["spec"]["supportedModelFormats"][0]["autoSelect"] = False
    return body


def using(name: str) -> dict[str, Any]:
    """A service with the runtime of its name."""
    body = service(name)
    body["spec"]["predictor"]["model"]["runtime"] = name
    return body


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    (folder / "weights").write_text("1 2 3")
    return folder


@pytest.fixture
async def cluster(folder: Path) -> AsyncIterator[LocalCluster]:
    """Many services by one start; each test looks at one."""
    bare = service("absent", uri="pvc://models/absent")
    exits = other("exits", "python", "-c", "print('no such model')\nraise SystemExit(7)")
    nothing = other("nothing", "no-such-server")
    services = [
        *map(using, ("exits", "nothing")),
        service("serves"),
        service("fails", env={"FAIL": "no weights; copy them"}),
        service("noisy", env={"NOISY": "1"}),
        bare,
    ]
    async with running(folder, *services, runtime(), exits, nothing) as cluster:
        yield cluster


async def test_services_and_their_objects_are_those_of_a_cluster(cluster: LocalCluster) -> None:
    await until_settled(cluster)

    # --- the one that serves
    related = cluster.related(key("serves"))
    assert related
    (pod,) = related.pods
    deployment, *others = related.children
    assert conditions(cluster, "serves") == {
        "PredictorReady": ("True", "NewReplicaSetAvailable"),
        "IngressReady": ("True", ""),
        "Progressing": ("True", "NewReplicaSetAvailable"),
        "Ready": ("True", ""),
        "Stopped": ("False", ""),
    }
    assert related.service["status"]["modelStatus"]["states"] == {
        "activeModelState": "Loaded",
        "targetModelState": "Loaded",
    }
    assert related.service["status"]["url"] == "http://serves.default.example.com"
    assert (related.service["metadata"]["generation"], related.service["status"]["observedGeneration"]) == (1, 1)
    assert [item["kind"] for item in (deployment, *others)] == ["Deployment", "Service", "Ingress"]
    assert (deployment["spec"]["replicas"], deployment["status"]["availableReplicas"]) == (1, 1)
    assert pod["status"]["phase"] == "Running"
    assert [item["metadata"]["name"] for item in related.runtimes] == ["fake", "exits", "nothing"]
    assert [event["reason"] for event in related.events if event["type"] == "Warning"] == []
    assert "InferenceServiceReady" in [event["reason"] for event in related.events]

    # --- those that fail: reason, place, exit code, cause
    failures = {}
    for name in ("fails", "exits", "absent", "nothing"):
        related = cluster.related(key(name))
        assert related
        info = related.service["status"]["modelStatus"]["lastFailureInfo"]
        _, reason = conditions(cluster, name)["Ready"]
        failures[name] = (reason, info["exitCode"], info["location"].rpartition(" ")[2])
    assert failures == {
        "fails": ("ServerFailed", 3, SERVER),
        "exits": ("ServerFailed", 7, SERVER),
        "absent": ("StorageInitializerFailed", 5, "storage-initializer"),
        "nothing": ("ServerFailed", 128, SERVER),
    }
    for name, cause in (("fails", "no weights; copy them"), ("exits", "no such model"), ("nothing", "no-such-server")):
        ready = cluster.services[key(name)].ready
        assert cause in ready["message"]

    # --- as the page and the commands show them
    seen = {name: view_of(cluster.related(key(name))) for name in ("serves", "exits", "absent")}  # type: ignore[arg-type]
    assert {name: service.health for name, service in seen.items()} == {
        "serves": HealthStatus.READY,
        "exits": HealthStatus.FAILED,
        "absent": HealthStatus.FAILED,
    }
    assert [(hop.kind, hop.name) for hop in seen["serves"].request_path] == [
        ("Ingress", "serves.default.example.com"),
        ("predictor", "serves-predictor"),
    ]
    assert seen["exits"].failure
    assert (seen["exits"].failure.exit_code, seen["exits"].failure.cause) == (7, "no such model")
    assert [item.state for item in seen["absent"].components[0].pods[0].containers][1] is ContainerState.WAITING

    # --- logs, metrics, requests
    place = ContainerKey(service=key("serves"), pod=pod["metadata"]["name"], container=SERVER)
    lines = [line async for _, line in cluster.log(place, LogOptions(lines=10, follow=False))]
    assert lines == ["serving ['weights']"]
    assert [line async for line in cluster.log(place, LogOptions(lines=10, follow=False, since_seconds=-60))] == []
    assert await cluster.metrics(key("serves"), place.pod) == "# TYPE http_requests_total counter\n"
    response = await cluster.send(
        key("serves"), ServiceRequest(method="POST", path="/v1/models/fake:predict", body=PREDICT)
    )
    assert (response.status, b'"predictions": [1]' in response.body, response.seconds > 0) == (200, True, True)
    refused = await cluster.send(key("fails"), ServiceRequest(method="GET", path="/v1/models"))
    assert refused.status == 503

    # --- a line of 10 MB is passed on in parts, and does not act
    (noisy,) = cluster.related(key("noisy")).pods  # type: ignore[union-attr]
    place = ContainerKey(service=key("noisy"), pod=noisy["metadata"]["name"], container=SERVER)
    texts = []
    async for _, text in cluster.log(place, LogOptions(lines=10**6, follow=True)):
        texts.append(text)
        if text.startswith("serving"):
            break
    assert max(map(len, texts)) <= 5 * OUTPUT_LINE_BYTES
    assert not any("\x1b" in text for text in texts)

    # --- what is not there
    for lost in (
        ContainerKey(service=key("serves"), pod="p", container=SERVER),
        ContainerKey(service=key("x"), pod="p", container="c"),
    ):
        with pytest.raises(OperatorError, match=" has no pod p"):
            await anext(cluster.log(lost, LogOptions(lines=1, follow=False)))
    with pytest.raises(OperatorError, match="there is no InferenceService x in namespace default"):
        await cluster.send(key("x"), ServiceRequest(method="GET", path="/"))
    assert cluster.related(key("x")) is None
    assert cluster.keys() == sorted(cluster.keys())


PREDICT = b'{"instances": [1]}'


async def test_a_download_is_seen_while_it_goes_on(folder: Path) -> None:
    size, seen = 60_000_000, asyncio.Event()

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n".encode())
        sent = 0
        while request.startswith(b"GET") and sent < size:
            step = size - sent if seen.is_set() else 1_000_000
            writer.write(b"x" * step)
            try:
                await writer.drain()
            except OSError:  # it has only asked for the beginning
                break
            sent += step
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(seen.wait(), 0.1)
        writer.close()

    def progress() -> DownloadProgress | None:
        related = cluster.related(key("first"))
        return related and next((pod.progress for pod in view_of(related).components[0].pods), None)

    async with await asyncio.start_server(trickle, "127.0.0.1", 0) as server:
        uri = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/weights.bin"
        async with running(folder, service(uri=uri), runtime()) as cluster, asyncio.timeout(120):
            await cluster.until(lambda: bool((found := progress()) and found.percent))
            assert conditions(cluster, "first")["Ready"] == ("Unknown", "LoadingModel")
            seen.set()
            await cluster.until(lambda: cluster.services[key("first")].is_ready)


async def test_a_server_that_does_not_live_is_started_again(folder: Path, tmp_path: Path) -> None:
    sick = tmp_path / "sick"
    async with running(folder, service(env={"SICK": str(sick)}), runtime(livenessProbe=LIVE)) as cluster:
        await until_settled(cluster)
        sick.touch()
        async with asyncio.timeout(120):
            await cluster.until(lambda: restarts(cluster) >= 1)
        sick.unlink()
        async with asyncio.timeout(120):
            await cluster.until(lambda: cluster.services[key("first")].is_ready)
        related = cluster.related(key("first"))
        assert related
        (status,) = related.pods[0]["status"]["containerStatuses"]

        assert status["lastState"]["terminated"]["exitCode"] == 143  # SIGTERM
        unhealthy = [event["message"] for event in related.events if event["reason"] == "Unhealthy"]
        assert unhealthy[0] == 'Liveness probe failed 1 times: 500 {"error": "out of memory"}'


async def test_a_server_that_does_not_start_in_time_is_stopped(folder: Path) -> None:
    late = {"tcpSocket": {"port": 9}, "periodSeconds": 1, "failureThreshold": 1}
    async with running(folder, service(), runtime(startupProbe=late)) as cluster:
        async with asyncio.timeout(120):
            await cluster.until(lambda: cluster.services[key("first")].has_failed)
        related = cluster.related(key("first"))
        assert related

        assert conditions(cluster, "first")["Ready"] == ("False", "ServerFailed")
        assert "Startup probe failed 1 times: it has not started in time" in [e["message"] for e in related.events]
        (first, *_) = diagnose(view_of(related)).findings
        cause = "it was killed after its startup probe failed: it has not started in time"
        assert (first.reason, first.cause) == ("ServerFailed", cause)
        stored = related.service["status"]["conditions"]
        assert cause in next(item["message"] for item in stored if item["type"] == "Ready")


@pytest.mark.parametrize(
    ("command", "status"), [(["python", "-c", "raise SystemExit(0)"], "True"), (["no-such-check"], "Unknown")]
)
async def test_a_command_decides_whether_a_server_is_ready(folder: Path, command: list[str], status: str) -> None:
    probe = {"exec": {"command": command}, "timeoutSeconds": 20}
    async with running(folder, service(), runtime(readinessProbe=probe)) as cluster:
        async with asyncio.timeout(120):
            await cluster.until(lambda: conditions_of_ready(cluster) in ((status, ""), (status, "StartingServer")))


async def test_a_process_that_does_not_end_is_killed_with_what_it_has_started(folder: Path) -> None:
    child = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    stubborn = service(env={"STUBBORN": "1"})
    stubborn["spec"]["predictor"]["terminationGracePeriodSeconds"] = 1
    leaving = other("leaves", "python", "-c", f"{child}; print(p.pid, flush=True); p.returncode = 0")
    async with running(folder, stubborn, using("leaves"), runtime(), leaving) as cluster:
        await until_settled(cluster)
        (pod,) = cluster.related(key("leaves")).pods  # type: ignore[union-attr]
        place = ContainerKey(service=key("leaves"), pod=pod["metadata"]["name"], container=SERVER)
        _, left = await anext(cluster.log(place, LogOptions(lines=1, follow=True)))

    assert not is_running(int(left))


async def test_of_many_events_the_last_ones_are_kept(folder: Path) -> None:
    async with running(folder, service(), runtime()) as cluster:
        await until_settled(cluster)
        pod = cluster.services[key("first")].pods()[0]
        for number in range(KEPT_EVENTS + 5):
            pod.listener.event(pod.manifest, "Normal", "Counted", str(number))
        related = cluster.related(key("first"))

        assert related
        assert [event["message"] for event in related.events] == [str(number) for number in range(5, KEPT_EVENTS + 5)]


async def test_a_service_whose_models_are_unknown_is_announced_without_a_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caller_module, "MODELS_SECONDS", 0.2)
    announced = asyncio.Queue[tuple[str, Sequence[str]]]()

    class Shown(Silent):
        def show_service(self, service: str, addresses: Sequence[tuple[str, str]], lines: Sequence[str]) -> None:
            announced.put_nowait((service, lines))

    text = YamlText("my.yaml", yaml.safe_dump_all([service(env={"MUTE": "1"}), runtime()]))
    checked = check([text], "default", installed=(), settings=None)
    settings = Settings({"models": folder}, free_port(), dict(os.environ), {})
    run = asyncio.create_task(serve(checked, settings, samples={}, output=Shown()))  # type: ignore[arg-type]
    async with asyncio.timeout(120):
        assert await announced.get() == ("first", [])

    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


async def test_a_response_that_takes_too_long_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiohttp.client.DEFAULT_TIMEOUT", aiohttp.ClientTimeout(total=2))
    async with running(folder, service(env={"MUTE": "1"}), runtime()) as cluster:
        await until_settled(cluster)

        with pytest.raises(OperatorError, match=r"^first does not respond: no response after 2 s$"):
            await cluster.send(key("first"), ServiceRequest(method="GET", path="/v1/models"))


async def test_an_answer_that_is_too_large_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(folder, service(), runtime()) as cluster:
        await until_settled(cluster)
        pod = cluster.services[key("first")].pods()[0].name
        for name in ("SCRAPED_BYTES", "SENT_RESPONSE_BYTES"):
            monkeypatch.setattr(cluster_module, name, 5)

        with pytest.raises(OperatorError, match="the response has more than 5 bytes"):
            await cluster.metrics(key("first"), pod)
        with pytest.raises(OperatorError, match="the response has more than 5 bytes"):
            await cluster.send(key("first"), ServiceRequest(method="GET", path="/v1/models"))


def restarts(cluster: LocalCluster) -> int:
    related = cluster.related(key("first"))
    assert related
    return sum(item["restartCount"] for pod in related.pods for item in pod["status"]["containerStatuses"])


def conditions_of_ready(cluster: LocalCluster) -> tuple[str, str]:
    return conditions(cluster, "first").get("Ready", ("", "")) if cluster.services[key("first")].ready else ("", "")
