"""Other installs than that of `make deploy`: two replicas, seen by a Prometheus, and one without cluster roles."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from tests.support.cluster import HTTP, RealCluster, curl
from tests.support.disruptions import CLAIM, a_service, write_model
from tests.support.monitoring import rule_groups
from tests.support.namespace import Namespace
from tests.support.object_stores import tls
from tests.support.object_stores.programs import listening
from tests.support.one_namespace import rendered_for
from tests.support.permissions import EVERYONES, granted_by, needed_for, of_account, refused
from tests.support.ports import free_port
from tests.support.replicas import HOME, Replicas, no_operator, two_replicas
from tests.support.source_tree import ROOT
from tests.support.volumes import Volume
from tests.support.waiting import eventually

CHANGES = 5  # services that are created while nobody leads
TAKEOVER = 60.0  # seconds, on a busy machine
ALONE = "isvc-one-namespace"  # whose accounts the audit policy of the bare cluster names


def audit_events(cluster: RealCluster) -> list[dict[str, Any]]:
    """What the API server has logged: the bare cluster's does."""
    log = cluster.kubeconfig.parent / "log" / "audit.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def writers(events: list[dict[str, Any]]) -> list[str]:
    """The replicas that wrote, in the order of their writes; those of the lease are left out."""
    wrote = (
        item["userAgent"].partition("/")[2]
        for item in sorted(events, key=lambda item: str(item["requestReceivedTimestamp"]))
        if item["userAgent"].startswith("isvc-operator/")
        and item["verb"] in ("create", "update", "patch", "delete")
        and item.get("objectRef", {}).get("resource") not in ("leases", "selfsubjectaccessreviews", None)
    )
    return [name for name, _ in itertools.groupby(wrote)]


@pytest.fixture(scope="module")
def prometheus(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus with the shipped rules; it finds the operator's pods by their annotations.

    It reaches them through the API server, as the pods' network is not that of every host.
    """
    folder, port, proxy = tmp_path_factory.mktemp("prometheus"), free_port(), free_port()
    built = ["bash", ROOT / "tests/cluster/program", "prometheus"]
    program = subprocess.run(built, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": rule_groups()}))
    annotation = "__meta_kubernetes_pod_annotation_prometheus_io_"
    path = ["__meta_kubernetes_namespace", "__meta_kubernetes_pod_name", f"{annotation}port", f"{annotation}path"]
    relabelings = [
        {"source_labels": [f"{annotation}scrape"], "regex": "true", "action": "keep"},
        {"source_labels": path, "separator": ";", "regex": "(.+);(.+);(.+);(.+)", "target_label": "__metrics_path__",
         "replacement": "/api/v1/namespaces/$1/pods/$2:$3/proxy$4"},
        {"target_label": "__address__", "replacement": f"127.0.0.1:{proxy}"},
        {"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"},
    ]  # fmt: skip
    found_by = {"role": "pod", "kubeconfig_file": str(cluster.kubeconfig), "namespaces": {"names": [HOME]}}
    scraping = {"job_name": "pods", "kubernetes_sd_configs": [found_by], "relabel_configs": relabelings}
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [scraping],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    scrape = [program, f"--config.file={folder / 'prometheus.yaml'}", f"--storage.tsdb.path={folder / 'data'}"]
    kubectl = [cluster.binary, f"--kubeconfig={cluster.kubeconfig}", "proxy", f"--port={proxy}"]
    with (
        listening(kubectl, proxy, folder / "proxy.log"),
        listening([*scrape, f"--web.listen-address=127.0.0.1:{port}"], port, folder / "prometheus.log"),
    ):
        yield f"http://127.0.0.1:{port}/api/v1"


def value_of(address: str, query: str) -> str:
    """The one value that Prometheus has; "" if it has none yet."""
    try:
        with urllib.request.urlopen(f"{address}/query?{urllib.parse.urlencode({'query': query})}") as answer:
            found = json.load(answer)["data"]["result"]
    except OSError:  # it starts
        return ""
    return str(found[0]["value"][1]) if found else ""


def apply_unserved(namespace: Namespace, *names: str) -> None:
    """Apply services whose claim does not exist: their pods wait, and cost nothing."""
    namespace.apply(*(a_service(name, "v2") for name in names))


def test_the_other_replica_goes_on_with_what_changes_while_the_leader_is_killed(
    cluster: RealCluster, namespace: Namespace, prometheus: str
) -> None:
    before = len(audit_events(cluster))
    with two_replicas(cluster) as replicas:
        apply_unserved(namespace, "first")
        namespace.wait_for("deployment", "first-predictor")
        eventually(lambda: value_of(prometheus, "count(isvc_operator_leader)") == "2", "both are scraped", TAKEOVER)
        assert value_of(prometheus, "sum(isvc_operator_leader)") == "1"
        assert value_of(prometheus, 'count(ALERTS{alertname=~"IsvcOperator.*", alertstate="firing"})') == ""

        killed = replicas.kill_leader()
        successor = served_by_another(replicas, namespace, killed)

    if events := audit_events(cluster)[before:]:
        led = writers(events)
        assert led[led.index(killed) :][:2] == [killed, successor]


def served_by_another(replicas: Replicas, namespace: Namespace, identity: str) -> str:
    """Change services until another replica leads; return its identity once it has served all of them."""
    names = [f"meanwhile-{number}" for number in range(CHANGES)]
    applied: list[str] = []

    def taken_over() -> str:
        for name in names[len(applied) :][:1]:
            applied.append(name)
            apply_unserved(namespace, name)
        return leader if (leader := replicas.leader()) != identity else ""

    successor = eventually(taken_over, "another replica leads", TAKEOVER)
    for name in applied:
        eventually(partial(namespace.find, "deployment", f"{name}-predictor"), f"{name} is served", TAKEOVER)
    return successor


@dataclass(frozen=True)
class Alone:
    """An operator for its own namespace alone, and the Roles that it has."""

    namespace: Namespace
    roles: list[dict[str, Any]]


@pytest.fixture(scope="module")
def alone(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    home, model = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("model")
    objects = rendered_for(ALONE, cluster, home)
    image = cluster.kubectl("--namespace", HOME, "get", "deployment/isvc-operator", "--output=jsonpath={..image}")
    registry, _, tag = image.partition("/operator:")
    text = re.sub(r"localhost/isvc-operator/([a-z-]+):[0-9.]+", rf"{registry}/\1:{tag}", yaml.safe_dump_all(objects))
    write_model(model)
    cluster.kubectl("create", "namespace", ALONE)
    try:
        namespace = Namespace(cluster, ALONE)
        with no_operator(cluster), Volume(namespace, CLAIM).filled_from(model):
            cluster.kubectl("apply", "--server-side", "--filename=-", stdin=text)
            yield Alone(namespace, [item for item in objects if item["kind"] == "Role"])
    finally:
        cluster.kubectl("delete", "namespace", ALONE, "--wait=false")


def test_an_operator_without_cluster_roles_serves_its_namespace_and_a_secret_makes_pods_serve_tls(
    alone: Alone, tmp_path: Path
) -> None:
    issued = tls.issue(tmp_path, x509.DNSName(f"sealed-predictor.{ALONE}.svc.cluster.local"))
    files = (f"--cert={issued.chain}", f"--key={issued.key}")
    alone.namespace.kubectl("create", "secret", "tls", "sealed", *files)
    sealed = a_service("sealed", "v2")
    sealed["metadata"]["annotations"] = {"isvc-operator.io/tls-secret": "sealed"}

    alone.namespace.apply(a_service("open", "v2"), sealed)
    for name in ("open", "sealed"):
        alone.namespace.wait_for_condition("Ready", "True", service=name, within=180.0)
        host = f"Host: {name}.{ALONE}.example.com"
        eventually(
            partial(lambda host: curl("--header", host, f"{HTTP}/v2/health/ready").status == 200, host),
            f"{name} is served by the ingress",
        )

    status = (alone.namespace.find("inferenceservice", "sealed") or {})["status"]
    assert status["address"]["url"] == f"https://sealed-predictor.{ALONE}.svc.cluster.local"
    assert "CertificateProblem" not in {item["type"] for item in status["conditions"]}


def test_it_is_refused_nothing(cluster: RealCluster, alone: Alone) -> None:
    pod = operator_in(alone.namespace)
    metrics = alone.namespace.kubectl("get", "--raw", f"/api/v1/namespaces/{ALONE}/pods/{pod}:8081/proxy/metrics")

    assert 'code="403"' not in metrics
    events = of_account(f":{ALONE}:isvc-operator", audit_events(cluster))
    assert refused(events) == []
    assert needed_for(events) - EVERYONES - granted_by(*alone.roles) == set()


def operator_in(namespace: Namespace) -> str:
    selector = "--selector=app.kubernetes.io/name=isvc-operator"
    return namespace.kubectl("get", "pods", selector, "--output=jsonpath={.items[0].metadata.name}")
