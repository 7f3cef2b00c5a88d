"""What is measured: our operator, that of another checkout, and KServe's manager, each beside the same cluster."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.bench.migration import kserve
from tests.bench.scale.cluster import Cluster, printed, started
from tests.bench.scale.services import RUNTIMES, runtime, service, services_path
from tests.support.apiserver import ApiServer, install_crds, wait_until_served
from tests.support.operator_process import OPERATOR, WATCHES, in_pod
from tests.support.ports import free_port, unbound_port
from tests.support.waiting import eventually

INGRESS_CLASS = "nobody"  # serves it
_START_TIMEOUT = 120.0  # seconds
_JSON = "application/json"
_APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Running:
    """A process that has seen the cluster; ``port`` serves its metrics."""

    process: psutil.Process
    port: int
    _counted: re.Pattern[str]
    _waiting: re.Pattern[str]

    def reconciles(self) -> int:
        """How many it has done."""
        return self._sum(self._counted)

    def is_idle(self) -> bool:
        """Whether nothing waits for a reconcile or is in one."""
        return self._sum(self._waiting) == 0

    def _sum(self, line: re.Pattern[str]) -> int:
        _, text = _get(self.port, "/metrics")
        return int(sum(map(float, line.findall(text))))


@dataclass(frozen=True)
class Ours:
    """``rollouts_per_minute``: 0 for no limit. ``root``: another checkout whose operator runs."""

    rollouts_per_minute: int = 0
    root: Path | None = None
    name: str = "ours"
    user_agents: tuple[str, ...] = (OPERATOR, WATCHES)

    def install(self, server: ApiServer) -> None:
        """The CRDs and the runtime."""
        install_crds(server)
        server.send("POST", RUNTIMES, runtime())

    @contextlib.contextmanager
    def running(self, cluster: Cluster) -> Iterator[Running]:
        """The operator with the credentials of a pod, once its caches are filled."""
        port = free_port()
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as account:
            (Path(folder) / "ingress").write_text(json.dumps({"ingressClassName": INGRESS_CLASS}))
            (Path(folder) / "inferenceService").write_text(json.dumps({"rolloutsPerMinute": self.rollouts_per_minute}))
            environment = in_pod(cluster.server, Path(account))
            if self.root is not None:
                environment["PYTHONPATH"] = str(self.root / "operator" / "src")
            command = [sys.executable, "-m", "tests.support.operator_in_pod", account, f"--health-port={port}",
                       f"--config-dir={folder}"]  # fmt: skip
            with _started(command, cluster, "operator", port, "/readyz", environment, self.root) as process:
                yield Running(
                    process, port,
                    re.compile(r"^isvc_operator_reconcile_duration_seconds_count\S* (\S+)$", re.MULTILINE),
                    re.compile(r"^isvc_operator_(?:queue_depth|reconciles_running) (\S+)$", re.MULTILINE),
                )  # fmt: skip


@dataclass(frozen=True)
class KServe:
    """KServe's manager with its own CRDs, ConfigMap and webhooks; one of these adds the model to each pod."""

    name: str = "KServe"
    user_agents: tuple[str, ...] = ("kserve/", "manager/")

    def install(self, server: ApiServer) -> None:
        """Its CRDs and its ConfigMap, and the runtime."""
        server.create_namespace("kserve")
        for item in _kserves_objects():
            if item["kind"] == "CustomResourceDefinition":
                _apply(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", item)
            elif item["kind"] == "ConfigMap":
                _apply(server, "/api/v1/namespaces/kserve/configmaps", kserve.adapted(item, INGRESS_CLASS))
        wait_until_served(server)
        server.send("POST", RUNTIMES, runtime())

    @contextlib.contextmanager
    def running(self, cluster: Cluster) -> Iterator[Running]:
        """The manager, once it is ready and its webhooks are called."""
        metrics, probes, webhooks = (unbound_port() for _ in range(3))
        with tempfile.TemporaryDirectory() as folder:
            certificates = Path(folder) / "k8s-webhook-server" / "serving-certs"  # where it looks
            certificates.mkdir(parents=True)
            key, certificate = kserve.make_certificate()
            (certificates / "tls.key").write_bytes(key)
            (certificates / "tls.crt").write_bytes(certificate)
            command = [printed("program", "kserve"), f"--metrics-addr=127.0.0.1:{metrics}",
                       f"--health-probe-addr=127.0.0.1:{probes}", f"--webhook-port={webhooks}"]  # fmt: skip
            environment = {"POD_NAMESPACE": "kserve", "TMPDIR": folder}
            with (
                _started(command, cluster, "kserve", probes, "/readyz", environment) as process,
                _called(cluster.server, f"https://127.0.0.1:{webhooks}", certificate),
            ):
                controller = r'\{[^}]*controller="inferenceservice"[^}]*\}'
                yield Running(
                    process, metrics,
                    re.compile(rf"^controller_runtime_reconcile_total{controller} (\S+)$", re.MULTILINE),
                    re.compile(
                        rf"^(?:workqueue_depth|controller_runtime_active_workers){controller} (\S+)$", re.MULTILINE
                    ),
                )  # fmt: skip


def _kserves_objects() -> list[dict[str, Any]]:
    return kserve.objects_of(Path(printed("sources", "kserve")))


@contextlib.contextmanager
def _called(server: ApiServer, url: str, certificate: bytes) -> Iterator[None]:
    """KServe's webhooks are called at ``url``, until the end of the block."""
    with contextlib.ExitStack() as stack:
        for item in _kserves_objects():
            if not item["kind"].endswith("WebhookConfiguration"):
                continue
            for webhook in item["webhooks"]:
                path = webhook["clientConfig"]["service"]["path"]
                webhook["clientConfig"] = {"url": url + path, "caBundle": base64.b64encode(certificate).decode()}
            collection = f"/apis/admissionregistration.k8s.io/v1/{item['kind'].lower()}s"
            _apply(server, collection, item)
            stack.callback(server.send, "DELETE", f"{collection}/{item['metadata']['name']}")
        eventually(lambda: _is_defaulted(server), "KServe's webhooks are called", _START_TIMEOUT)
        yield


def _is_defaulted(server: ApiServer) -> bool:
    """Whether a new service would get what only a webhook adds."""
    created = server.send("POST", services_path("default") + "?dryRun=All", service("new", "default"))
    return bool(created["metadata"].get("annotations"))


@contextlib.contextmanager
def _started(
    command: Sequence[str],
    cluster: Cluster,
    name: str,
    port: int,
    path: str,
    environment: Mapping[str, str] = {},
    folder: Path | None = None,
) -> Iterator[psutil.Process]:
    log = cluster.folder / f"{name}.log"
    with started(command, log, {"KUBECONFIG": str(cluster.server.kubeconfig), **environment}, folder) as process:

        def is_ready() -> bool:
            assert process.poll() is None, f"{name} has ended; its log:\n{log.read_text()[-3000:]}"
            return _get(port, path)[0] == 200

        eventually(is_ready, f"{name} is ready", _START_TIMEOUT, lambda: log.read_text()[-3000:])
        yield psutil.Process(process.pid)


def _get(port: int, path: str) -> tuple[int, str]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""


def _apply(server: ApiServer, collection: str, item: dict[str, Any]) -> None:
    options = "fieldManager=bench&force=true"
    server.send("PATCH", f"{collection}/{item['metadata']['name']}?{options}", item, content=_APPLY)
