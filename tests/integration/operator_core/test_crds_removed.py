"""CRDs that are removed and put back while the operator runs: it lives, says so, and goes on without a restart."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.integration.operator_core.conftest import new_namespace
from tests.integration.operator_core.test_autoscaling import SCALED_OBJECTS
from tests.integration.operator_core.test_gateway_api import crds_of_routes, use_gateway_api
from tests.support.apiserver import CRDS, ApiServer, install_crds, install_runtime, running
from tests.support.namespace import Namespace, story_service
from tests.support.operator_process import OPERATOR, got, operator
from tests.support.ports import free_port
from tests.support.waiting import eventually

PREDICTOR = "torchserve-predictor"
KEPT = (("deployment", PREDICTOR), ("service", PREDICTOR))
WITHIN = 60.0  # seconds; a missing kind is tried again every ten


@dataclass(frozen=True)
class Running:
    """An operator on an API server of its own, whose CRDs come and go."""

    server: ApiServer
    process: subprocess.Popen[bytes]
    port: int
    log: Path
    optional: Path

    def is_alive(self) -> bool:
        return got(self.port, "/healthz") == (200, "ok\n") and self.process.poll() is None


@pytest.fixture(scope="module")
def alone(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("operator")
    (config := folder / "config").mkdir()
    use_gateway_api(config)
    optional = folder / "optional.yaml"
    optional.write_text(yaml.safe_dump_all([*crds_of_routes(), SCALED_OBJECTS]))
    log, port = folder / "operator.log", free_port()
    with running(assets) as server:
        install_crds(server)
        install_crds(server, optional)
        install_runtime(server)
        with operator(server, log, f"--config-dir={config}", f"--health-port={port}") as process:
            yield Running(server, process, port, log, optional)
    assert "Traceback" not in log.read_text()


@pytest.fixture
def serving(alone: Running) -> Namespace:
    """A service that is up, with HTTPRoutes and a ScaledObject."""
    namespace = new_namespace(alone.server)
    service = story_service()
    service["metadata"]["annotations"] = {"serving.kserve.io/autoscalerClass": "keda"}
    service["spec"]["predictor"] |= {"minReplicas": 1, "maxReplicas": 4}
    namespace.apply(service)
    namespace.wait_for("httproute", "torchserve")
    namespace.wait_for("scaledobject", PREDICTOR)
    namespace.play_finished_rollout()
    namespace.wait_for_condition("PredictorReady", "True")
    return namespace


def uids(namespace: Namespace) -> list[str]:
    return [namespace.wait_for(kind, name)["metadata"]["uid"] for kind, name in KEPT]


def deletions(server: ApiServer, since: int) -> list[str]:
    return [call.resource for call in server.calls(OPERATOR, since) if call.verb == "delete"]


def test_optional_kinds_come_back_when_their_crds_do(alone: Running, serving: Namespace) -> None:
    before, since = uids(serving), alone.server.position()
    alone.server.kubectl("delete", f"--filename={alone.optional}")
    serving.wait_for_condition("IngressReady", "False", "GatewayApiNotInstalled", within=WITHIN)
    assert alone.is_alive()
    assert serving.condition("PredictorReady")["status"] == "True"

    install_crds(alone.server, alone.optional)
    for kind, name in (("httproute", "torchserve"), ("scaledobject", PREDICTOR)):
        eventually(lambda kind=kind, name=name: serving.find(kind, name), f"{kind} {name} is back", WITHIN)  # type: ignore[misc]
    serving.wait_for_condition("IngressReady", "False", "ParentStatusNotAvailable", within=WITHIN)
    serving.kubectl("delete", "httproute", "torchserve")
    eventually(lambda: serving.find("httproute", "torchserve"), "the watch of the kind has started anew", WITHIN)
    assert uids(serving) == before
    assert deletions(alone.server, since) == []


def test_services_keep_their_children_while_the_runtimes_are_gone(alone: Running, serving: Namespace) -> None:
    before, since = uids(serving), alone.server.position()
    files = [CRDS / f"{plural}.serving.kserve.io.yaml" for plural in ("servingruntimes", "clusterservingruntimes")]
    alone.server.kubectl("delete", *(f"--filename={file}" for file in files))
    condition = serving.wait_for_condition("Ready", "False", "NoSupportingRuntime", within=WITHIN)
    assert condition["message"].endswith("install one")
    assert alone.is_alive()
    assert uids(serving) == before

    install_crds(alone.server, *files)
    install_runtime(alone.server)
    serving.wait_for_condition("PredictorReady", "True", within=WITHIN)
    assert uids(serving) == before
    assert deletions(alone.server, since) == []


def test_services_that_are_created_after_their_crd_came_back_get_children(alone: Running, serving: Namespace) -> None:
    since = alone.server.position()
    crd = CRDS / "inferenceservices.serving.kserve.io.yaml"
    saved = json.loads(serving.kubectl("get", "inferenceservice", "torchserve", "--output=json"))
    alone.server.kubectl("delete", f"--filename={crd}")
    eventually(lambda: "/inferenceservices is not there" in alone.log.read_text(), "the operator says so", WITHIN)
    assert alone.is_alive()
    assert deletions(alone.server, since) == []  # the garbage collector's work, who knows that the owner is gone

    serving.kubectl("delete", "deployment,service,httproute,scaledobject,poddisruptionbudget", "--all")
    install_crds(alone.server, crd)
    body = {name: saved[name] for name in ("apiVersion", "kind", "spec")}
    serving.apply({**body, "metadata": {"name": "torchserve", "annotations": saved["metadata"]["annotations"]}})
    for kind, name in (*KEPT, ("httproute", "torchserve"), ("scaledobject", PREDICTOR)):
        eventually(lambda kind=kind, name=name: serving.find(kind, name), f"{kind} {name} is back", WITHIN)  # type: ignore[misc]
    serving.play_finished_rollout()
    serving.wait_for_condition("PredictorReady", "True", within=WITHIN)
    assert alone.is_alive()
