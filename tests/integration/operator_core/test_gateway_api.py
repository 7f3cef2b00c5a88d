"""HTTPRoutes on a real API server with the real Gateway API, which is installed while the operator runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.operator_core.conftest import ROOT, new_namespace
from tests.integration.operator_core.test_adopting import RENDERED, make_as, owned_by, waiting_service
from tests.support.apiserver import ApiServer, install_crds, install_runtime, wait_until_served
from tests.support.namespace import Namespace
from tests.support.operator_process import operator
from tests.support.waiting import eventually

NAMES = ("torchserve", "torchserve-predictor")
GATEWAY = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "kserve"}
PARENT = {**GATEWAY, "name": "kserve-ingress-gateway"}
HOSTS = {"additionalDomainTemplates": [], "additionalIngressDomains": ["ml.test"]}
CASES = ROOT / "tests" / "golden" / "cases"


def use_gateway_api(folder: Path) -> None:
    """Write the operator's configuration."""
    (folder / "ingress").write_text(json.dumps({"enableGatewayApi": True, **HOSTS}))


@pytest.fixture(scope="module")
def early(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Namespace]:
    """A service that was there before the Gateway API, which is installed now."""
    file = tmp_path_factory.mktemp("crds") / "gateway-api.yaml"
    file.write_text(yaml.safe_dump_all(crds_of_routes()))
    use_gateway_api(config := tmp_path_factory.mktemp("config"))
    install_runtime(apiserver)
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    namespace = new_namespace(apiserver)
    with operator(apiserver, log, f"--config-dir={config}"):
        namespace.apply_story()
        namespace.wait_for_condition("IngressReady", "False", "GatewayApiNotInstalled")
        assert namespace.find("deployment", "torchserve-predictor") is not None
        install_crds(apiserver, file)
        try:
            yield namespace
        finally:
            apiserver.kubectl("delete", f"--filename={file}")
            wait_until_served(apiserver)
    assert "Unresolved resources" not in log.read_text()


def crds_of_routes() -> list[dict[str, Any]]:
    """The CRDs that the operator needs; the others would take the API server seconds more."""
    script = subprocess.run(["bash", ROOT / "tests/cluster/gateway-api"], stdout=subprocess.PIPE, text=True, check=True)
    names = ("gateway.networking.k8s.io_httproutes.yaml", "gateway.networking.k8s.io_grpcroutes.yaml")
    return [yaml.safe_load((Path(script.stdout.strip()) / name).read_text()) for name in names]


def accept(namespace: Namespace, status: str = "True", **condition: Any) -> None:
    """What the gateway's controller does."""
    for name in NAMES:
        generation = namespace.wait_for("httproute", name)["metadata"]["generation"]
        now = {"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation}
        known = {"type": "Accepted", "status": status, "reason": "Accepted", "message": "", **now, **condition}
        parent = {"parentRef": PARENT, "controllerName": "example.com/gateway", "conditions": [known]}
        namespace.patch_status("httproute", name, {"parents": [parent]})


def test_the_routes_are_created_once_the_gateway_api_is_installed(early: Namespace) -> None:
    route = early.wait_for("httproute", "torchserve")

    assert route["spec"]["parentRefs"] == [PARENT]
    assert route["spec"]["hostnames"] == [f"torchserve.{early.name}.{domain}" for domain in ("example.com", "ml.test")]
    early.wait_for_condition("IngressReady", "False", "ParentStatusNotAvailable")


def test_the_condition_is_what_the_gateway_reports(early: Namespace, namespace: Namespace) -> None:
    namespace.apply_story()
    namespace.play_finished_rollout()
    accept(namespace, "False", reason="NotAllowedByListeners", message="No listener allows it")

    refused = namespace.wait_for_condition("Ready", "False", "NotAllowedByListeners")
    assert "kserve/kserve-ingress-gateway reports NotAllowedByListeners: No listener allows it" in refused["message"]
    accept(namespace)
    namespace.wait_for_condition("Ready", "True")


def test_httproutes_of_kserve_are_adopted(early: Namespace, namespace: Namespace) -> None:
    service = waiting_service(namespace)
    make_as("manager", namespace, *(kserves_route(name, service) for name in NAMES))

    namespace.apply_story()

    def adopted() -> dict[str, Any] | None:
        found = namespace.wait_for("httproute", "torchserve")
        return found if RENDERED in found["metadata"].get("annotations", {}) else None

    route = eventually(adopted, "the HTTPRoute is adopted")
    matches = [match["path"] for rule in route["spec"]["rules"] for match in rule["matches"]]
    assert {match["type"] for match in matches} == {"PathPrefix"}
    assert "old.example.com" not in route["spec"]["hostnames"]
    assert route["metadata"]["labels"]["serving.kserve.io/inferenceservice"] == "torchserve"


@pytest.mark.parametrize("case", ["gateway-api", "gateway-api-grpc"])
def test_the_api_server_accepts_every_route_that_is_rendered(early: Namespace, apiserver: ApiServer, case: str) -> None:
    children = yaml.safe_load_all((CASES / case / "children.yaml").read_text())
    routes = [child for child in children if child["kind"].endswith("Route")]

    stored = apiserver.dry_run(*map(in_the_default_namespace, routes))

    assert [item["metadata"]["name"] for item in stored] == [item["metadata"]["name"] for item in routes]


def in_the_default_namespace(route: dict[str, Any]) -> dict[str, Any]:
    return {**route, "metadata": {**route["metadata"], "namespace": "default"}}


def kserves_route(name: str, service: dict[str, Any]) -> dict[str, Any]:
    """An HTTPRoute as KServe's controller creates it: with patterns, and without the service's label."""
    match = {"path": {"type": "RegularExpression", "value": "^/.*$"}}
    backend = {"group": "", "kind": "Service", "name": "torchserve-predictor", "port": 80}
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": name, **owned_by(service)},
        "spec": {
            "hostnames": ["old.example.com"],
            "parentRefs": [PARENT],
            "rules": [{"matches": [match], "backendRefs": [backend], "timeouts": {"request": "60s"}}],
        },
    }
