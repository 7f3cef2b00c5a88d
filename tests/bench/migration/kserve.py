"""KServe's own controller on the cluster: its manifests, for this cluster's ingress, images and certificates."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml

from tests.support.cluster import RealCluster

MANAGER = "localhost/kserve:1"
SERVER = "localhost/isvc-operator/v1-server:0.2.0"
INITIALIZER = "localhost/isvc-operator/storage-initializer:0.2.0"
WEBHOOKS = "kserve-webhook-server-service"
_MANIFESTS = "install/v0.20.0/kserve.yaml"
# Of the other controllers (models on nodes, language models) nothing is installed.
_OTHERS = re.compile(r"^  name: \S*(llm|localmodel|llm-d|inferencepools|inferenceobjectives)", re.MULTILINE)
_KINDS = re.compile(r"^kind: (Certificate|Issuer|DaemonSet|ClusterStorageContainer|Secret)$", re.MULTILINE)
# Small, because many services share a node here.
SMALL = {"cpuRequest": "5m", "cpuLimit": "1", "memoryRequest": "32Mi", "memoryLimit": "512Mi"}


def objects_of(sources: Path) -> list[dict[str, Any]]:
    """The objects of KServe's manifests that its manager needs."""
    texts = (sources / _MANIFESTS).read_text().split("\n---\n")
    return [yaml.load(text, yaml.CSafeLoader) for text in texts if not _OTHERS.search(text) and not _KINDS.search(text)]


def install(cluster: RealCluster, sources: Path) -> None:
    """Apply KServe's manifests, and wait for its manager."""
    objects = objects_of(sources)
    key, certificate = make_certificate()
    cluster.kubectl("create", "namespace", "kserve")
    cluster.apply("kserve", _secret(key, certificate))
    crds = [item for item in objects if item["kind"] == "CustomResourceDefinition"]
    _apply(cluster, crds)
    names = [f"crd/{item['metadata']['name']}" for item in crds]
    for condition in ("jsonpath={.status.conditions}", "condition=Established"):
        cluster.kubectl("wait", f"--for={condition}", "--timeout=60s", *names)
    webhooks = [item for item in objects if item["kind"].endswith("WebhookConfiguration")]
    _apply(cluster, [adapted(item, "contour") for item in objects if item not in crds and item not in webhooks])
    cluster.kubectl("rollout", "status", "deployment/kserve-controller-manager", "--namespace=kserve", "--timeout=150s")
    for item in webhooks:
        for webhook in item["webhooks"]:
            webhook["clientConfig"]["caBundle"] = base64.b64encode(certificate).decode()
    _apply(cluster, [the_runtime()])
    _apply(cluster, webhooks)


def the_runtime() -> dict[str, Any]:
    """Somebody's own runtime, with a format of its own."""
    container = {
        "name": "kserve-container",
        "image": SERVER,
        "args": ["--model_dir=/mnt/models", "--http_port=8080"],
        "resources": {"requests": {"cpu": "5m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
    }
    formats = [{"name": "factor", "version": "1", "autoSelect": True}]
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ClusterServingRuntime",
        "metadata": {"name": "factor-server"},
        "spec": {"supportedModelFormats": formats, "protocolVersions": ["v1"], "containers": [container]},
    }


def _apply(cluster: RealCluster, objects: list[dict[str, Any]]) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", stdin=text)


def adapted(item: dict[str, Any], ingress_class: str) -> dict[str, Any]:
    """The object with what a cluster of these tests has."""
    if item["kind"] == "ConfigMap" and item["metadata"]["name"] == "inferenceservice-config":
        _change(item["data"], "ingress", ingressClassName=ingress_class, disableIstioVirtualHost=True)
        _change(item["data"], "deploy", defaultDeploymentMode="Standard")
        _change(item["data"], "storageInitializer", image=INITIALIZER, **SMALL)
        item["data"] = {key: text for key, text in item["data"].items() if not key.startswith("_")}
    if item["kind"] == "Deployment":
        pod = item["spec"]["template"]["spec"]
        pod["containers"] = [container for container in pod["containers"] if container["name"] == "manager"]
        pod["securityContext"] |= {"runAsUser": 1000}
        changed = {"image": MANAGER, "imagePullPolicy": "Never", "command": ["/kserve"], "resources": {}}
        pod["containers"][0] |= changed
        # The first probe comes after 30 seconds otherwise, at each start.
        pod["containers"][0]["readinessProbe"] |= {"initialDelaySeconds": 2, "periodSeconds": 1}
    return item


def _change(data: dict[str, str], key: str, **fields: Any) -> None:
    data[key] = json.dumps({**json.loads(data[key]), **fields})


def _secret(key: bytes, certificate: bytes) -> dict[str, Any]:
    data = {name: base64.b64encode(content).decode() for name, content in (("tls.key", key), ("tls.crt", certificate))}
    names = {"name": "kserve-webhook-server-cert", "namespace": "kserve"}
    return {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": names, "data": data}


def make_certificate() -> tuple[bytes, bytes]:
    """A key and a certificate for the webhooks."""
    with tempfile.TemporaryDirectory() as folder:
        key, certificate = Path(folder) / "key", Path(folder) / "certificate"
        names = f"subjectAltName=DNS:{WEBHOOKS}.kserve.svc,IP:127.0.0.1"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                   "-days", "30", "-subj", f"/CN={WEBHOOKS}", "-addext", names, "-keyout", str(key), "-out",
                   str(certificate)]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
        return key.read_bytes(), certificate.read_bytes()
