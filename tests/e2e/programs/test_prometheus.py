"""What the operator reports of itself, read by a real Prometheus, with the shipped alerts and the shipped dashboard."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.support.apiserver import ApiServer
from tests.support.monitored_operator import Monitored, monitored_operator
from tests.support.monitoring import dashboard_queries, rule_groups
from tests.support.namespace import Namespace
from tests.support.object_stores.programs import listening
from tests.support.ports import free_port
from tests.support.source_tree import ROOT
from tests.support.waiting import eventually

ANSWER_TIMEOUT = 10.0  # seconds
POD_IP = "127.0.0.9"


@pytest.fixture(scope="module")
def monitored(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    namespaces = [Namespace(apiserver, name) for name in ("monitored-ready", "monitored-refused")]
    for namespace in namespaces:
        apiserver.create_namespace(namespace.name)
    with monitored_operator(apiserver, tmp_path_factory.mktemp("operator"), *namespaces) as found:
        yield found


@pytest.fixture(scope="module")
def pods(apiserver: ApiServer, monitored: Monitored) -> None:
    """A pod of the service, and one whose metrics nobody has asked for."""
    namespace = Namespace(apiserver, monitored.ready)
    template = namespace.wait_for("deployment", "torchserve-predictor")["spec"]["template"]
    for name, given in (("scraped", template["metadata"]["annotations"]), ("silent", {})):
        metadata = {"name": name, "labels": template["metadata"]["labels"], "annotations": given}
        namespace.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
        namespace.patch_status("pod", name, {"phase": "Running", "podIP": POD_IP, "podIPs": [{"ip": POD_IP}]})


@pytest.fixture(scope="module")
def prometheus(
    monitored: Monitored, pods: None, apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of a Prometheus that has scraped the operator and evaluates the shipped rules."""
    folder, port = tmp_path_factory.mktemp("prometheus"), free_port()
    built = ["bash", ROOT / "tests/cluster/program", "prometheus"]
    program = subprocess.run(built, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": rule_groups()}))
    target = {"targets": [f"127.0.0.1:{monitored.port}"], "labels": {"pod": "isvc-operator-0"}}
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [
            {"job_name": "isvc-operator", "static_configs": [target]},
            {"job_name": "services", **of_monitor(monitor_of_the_page(), apiserver)},
        ],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    command = [
        program,
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    address = f"http://127.0.0.1:{port}/api/v1"
    with listening(command, port, folder / "log"):
        # Rates need two samples.
        eventually(
            lambda: asked(address, "query", query="count_over_time(isvc_operator_leader[1m]) > 2")["result"],
            "Prometheus has scraped the operator",
            otherwise=(folder / "log").read_text,
        )
        yield address


def asked(address: str, path: str, **query: str) -> Any:
    """The data of Prometheus' answer; an HTTPError if it refuses the query."""
    url = f"{address}/{path}?{urllib.parse.urlencode(query)}"
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_TIMEOUT) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        with error:
            if error.code != 503:  # it starts
                raise AssertionError(f"{query}: {error.read().decode()}") from error
        return {"result": []}


def monitor_of_the_page() -> dict[str, Any]:
    """The PodMonitor for the pods of services."""
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/operations.md").read_text(), re.DOTALL)
    (text,) = [block for block in blocks if "kind: PodMonitor" in block]
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def of_monitor(monitor: dict[str, Any], server: ApiServer) -> dict[str, Any]:
    """What the Prometheus operator makes of a PodMonitor: a part of a scrape configuration."""
    spec, pod = monitor["spec"], "__meta_kubernetes_pod_"
    (endpoint,), (label,) = spec["podMetricsEndpoints"], spec["selector"]["matchExpressions"]
    own = {"namespace": "__meta_kubernetes_namespace", "container": f"{pod}container_name", "pod": f"{pod}name"}
    copied = {sanitized(name): f"{pod}label_{sanitized(name)}" for name in spec["podTargetLabels"]}
    names = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
    return {
        "kubernetes_sd_configs": [{"role": "pod", "kubeconfig_file": str(server.kubeconfig)}],
        "relabel_configs": [
            {"action": "keep", "source_labels": [f"{pod}labelpresent_{sanitized(label['key'])}"], "regex": "true"},
            *({"source_labels": [source], "target_label": name} for name, source in (own | copied).items()),
            *({names.get(name, name): value for name, value in item.items()} for item in endpoint["relabelings"]),
        ],
    }


def sanitized(name: str) -> str:
    return re.sub(r"\W", "_", name)


def test_the_pod_monitor_of_the_page_finds_each_pod_of_a_service_once(prometheus: str, monitored: Monitored) -> None:
    def found() -> list[dict[str, Any]]:
        targets = asked(prometheus, "targets", state="active")["activeTargets"]
        return [item for item in targets if item["scrapePool"] == "services"]

    (target,) = eventually(found, "Prometheus has found pods")

    assert target["scrapeUrl"] == f"http://{POD_IP}:8080/metrics"
    assert target["labels"] == {
        "job": "services",
        "instance": f"{POD_IP}:8080",
        "namespace": monitored.ready,
        "pod": "scraped",
        "serving_kserve_io_inferenceservice": "torchserve",
        "component": "predictor",
    }


def test_prometheus_evaluates_every_alert(prometheus: str) -> None:
    def evaluated() -> list[dict[str, Any]] | None:
        rules = [rule for group in asked(prometheus, "rules")["groups"] for rule in group["rules"]]
        return rules if all(rule["health"] != "unknown" for rule in rules) else None

    rules = eventually(evaluated, "the rules are evaluated")

    assert {rule["name"]: (rule["health"], rule.get("lastError")) for rule in rules} == {
        rule["alert"]: ("ok", None) for group in rule_groups() for rule in group["rules"]
    }
    # One service is not ready: an object of its user has the name of its Service.
    assert {rule["name"] for rule in rules if rule["state"] != "inactive"} == {"InferenceServicesFailed"}


def test_every_query_of_the_dashboard_has_data(prometheus: str) -> None:
    empty = [
        query
        for query in dashboard_queries()
        if not asked(prometheus, "query", query=query.replace("$__rate_interval", "1m"))["result"]
    ]

    assert empty == []
