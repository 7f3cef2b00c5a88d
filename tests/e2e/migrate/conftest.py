"""A cluster without containers, on which KServe's manager is played and our operator is real."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from isvc.commands import main
from tests.support.apiserver import ApiServer, install_crds, running
from tests.support.fake_kserve_manager import the_containers
from tests.support.fake_node import FakeNode, Pod, fake_node
from tests.support.namespace import Namespace
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[3]
WEBHOOKS = "kserve-webhook-server-service"
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Cluster:
    """``manifests`` is the operator's YAML."""

    server: ApiServer
    node: FakeNode
    manifests: Path

    def migrate(self, *arguments: str) -> int:
        """Run `isvc migrate`, and return its exit code."""
        return main(["migrate", *arguments, f"--kubeconfig={self.server.kubeconfig}"])

    def find(self, api: str, plural: str, name: str) -> dict[str, Any] | None:
        """An object of the whole cluster."""
        found = self.server.send("GET", f"/apis/{api}/{plural}")["items"]
        return next((item for item in found if item["metadata"]["name"] == name), None)


@pytest.fixture(scope="module")
def cluster(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("migrate")
    controllers = Path(_printed("bash", "tests/cluster/program", "kube-controller-manager").strip())
    manifests = home / "operator.yaml"
    manifests.write_text(yaml.safe_dump_all(_manifests()))

    def start(*command: str, **environment: str) -> subprocess.Popen[bytes]:
        with (home / "programs.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", *command], cwd=ROOT, env={**os.environ, **environment}, stdout=log, stderr=log
            )

    def manager(_: Pod) -> subprocess.Popen[bytes]:
        return start("tests.support.fake_kserve_manager", str(server.kubeconfig))

    def operator(pod: Pod) -> subprocess.Popen[bytes]:
        env = {item["name"]: item.get("value", "") for item in pod["spec"]["containers"][0].get("env", ())}
        watched = env.get("WATCH_NAMESPACES", "")
        return start("isvc_operator", KUBECONFIG=str(server.kubeconfig), WATCH_NAMESPACES=watched)

    with running(assets) as server:
        install_crds(server)
        programs = {"kserve-controller-manager": manager, "isvc-operator": operator}
        with fake_node(server, controllers, home / "controllers.log", programs) as node:
            server.create_namespace("kserve")
            server.send("POST", "/apis/apps/v1/namespaces/kserve/deployments", the_manager())
            hooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
            server.send("POST", hooks, a_webhook("inferenceservice.serving.kserve.io", WEBHOOKS))
            server.send(
                "POST", hooks, a_webhook("llminferenceservice.serving.kserve.io", "llmisvc-webhook-server-service")
            )
            yield Cluster(server, node, manifests)


@pytest.fixture
def namespace(cluster: Cluster) -> Namespace:
    """A namespace with two services of KServe's, both Ready."""
    namespace = Namespace(cluster.server, f"team-{next(_numbers)}")
    cluster.server.create_namespace(namespace.name)
    for name in ("one", "two"):
        service = {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {"name": name},
            "spec": {"predictor": {"containers": the_containers()}},
        }
        namespace.apply(service)
        owner = namespace.wait_for("inferenceservice", name)
        for child in kserves_children(owner):
            cluster.server.kubectl(
                "create", f"--namespace={namespace.name}", "--field-manager=manager", "--filename=-",
                stdin=yaml.safe_dump(child),
            )  # fmt: skip
        namespace.wait_for_condition("Ready", "True", service=name)
    eventually(lambda: len(pods_of(namespace)) == 3, "the pods are there")
    return namespace


def pods_of(namespace: Namespace) -> list[dict[str, Any]]:
    """The pods of the namespace that do not end."""
    assert isinstance(namespace.server, ApiServer)
    pods = namespace.server.send("GET", f"/api/v1/namespaces/{namespace.name}/pods")["items"]
    return [item for item in pods if "deletionTimestamp" not in item["metadata"]]


def kserves_children(service: dict[str, Any]) -> list[dict[str, Any]]:
    """A Deployment, of two pods for ``two``, and a Service, as KServe's controller makes them."""
    name = f"{service['metadata']['name']}-predictor"
    owner = {
        "apiVersion": service["apiVersion"], "kind": service["kind"], "name": service["metadata"]["name"],
        "uid": service["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    labels = {
        "app": f"isvc.{name}",
        "component": "predictor",
        "serving.kserve.io/inferenceservice": service["metadata"]["name"],
    }
    metadata = {"name": name, "labels": labels, "ownerReferences": [owner]}
    selector = {"app": f"isvc.{name}"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": the_containers()}}
    replicas = 2 if service["metadata"]["name"] == "two" else 1
    return [
        {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {"replicas": replicas, "selector": {"matchLabels": selector}, "template": template},
        },
        {
            "apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": {"selector": selector, "ports": [{"name": name, "port": 80, "targetPort": 8080}]},
        },
    ]  # fmt: skip


def the_manager() -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "kserve-controller-manager"}
    containers = [{"name": "manager", "image": "kserve/kserve-controller:v0.20.0", "args": ["--leader-elect"]}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "kserve-controller-manager"}, "spec": spec,
    }  # fmt: skip


def a_webhook(name: str, service: str) -> dict[str, Any]:
    """A configuration for a kind that nobody creates here: there is no webhook behind it."""
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["CREATE"]}
    webhook = {
        "name": f"defaulter.{name}",
        "clientConfig": {"service": {"namespace": "kserve", "name": service, "path": "/mutate"}, "caBundle": "Cg=="},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": name, "labels": {"of": "kserve"}}, "webhooks": [webhook]}


def _manifests() -> list[dict[str, Any]]:
    rendered = _printed("bash", "tests/cluster/render", "default")
    return [item for item in yaml.safe_load_all(rendered) if item]


def _printed(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
