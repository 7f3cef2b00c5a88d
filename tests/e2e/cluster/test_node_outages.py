"""What a node takes away from services that were ready. The node is this host, and no other test uses it meanwhile."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.breaking_services import IMAGE, a_breaking_service, events_on, pods_of, tell
from tests.support.cluster import RealCluster
from tests.support.diagnose_output import assert_diagnosed
from tests.support.namespace import Namespace
from tests.support.node_programs import node_images, paused
from tests.support.volumes import claimed
from tests.support.waiting import eventually

NAME = "served"
WITHIN = 120.0  # seconds; a node that is silent for 50 counts as not ready


def test_a_node_that_does_not_report_is_named_until_it_reports_again(
    cluster: RealCluster, namespace: Namespace
) -> None:
    namespace.apply(a_breaking_service(NAME))
    namespace.wait_for_condition("Ready", "True", service=NAME, within=WITHIN)

    with paused(cluster, "kubelet"):
        namespace.wait_for_condition("Ready", "False", "NodeNotReady", NAME, WITHIN)
        assert_diagnosed(namespace, NAME, "NodeNotReady", "does not report to the API server")
        assert ("Warning", "NodeNotReady") in events_on(namespace, NAME)

    namespace.wait_for_condition("Ready", "True", service=NAME, within=WITHIN)


def test_a_pod_waits_for_a_cordoned_node_until_it_is_uncordoned(cluster: RealCluster, namespace: Namespace) -> None:
    name, node = "cordoned", cluster.kubectl("get", "nodes", "--output=name").strip()
    cluster.kubectl("cordon", node)
    try:
        namespace.apply(a_breaking_service(name))
        namespace.wait_for_condition("Ready", "False", "Unschedulable", name, WITHIN)
        assert_diagnosed(namespace, name, "Unschedulable", "were unschedulable")
    finally:
        cluster.kubectl("uncordon", node)

    namespace.wait_for_condition("Ready", "True", service=name, within=WITHIN)


def test_an_image_that_its_node_has_collected_is_named_until_it_can_be_pulled(
    cluster: RealCluster, namespace: Namespace
) -> None:
    name, image = "collected", f"{IMAGE}-collected"
    node_images(cluster, "tag", IMAGE, image)
    namespace.apply(a_breaking_service(name, {"image": image}))
    namespace.wait_for_condition("Ready", "True", service=name, within=WITHIN)
    node_images(cluster, "rm", image)

    tell(namespace, *pods_of(namespace, name), "do.unlink(); os._exit(1)")

    namespace.wait_for_condition("Ready", "False", "ImagePullFailed", name, WITHIN)
    assert_diagnosed(namespace, name, "ImagePullFailed", image)
    assert ("Warning", "ImagePullFailed") in events_on(namespace, name)

    node_images(cluster, "tag", IMAGE, image)

    namespace.wait_for_condition("Ready", "True", service=name, within=WITHIN)
    node_images(cluster, "rm", image)


DRIVER = "block.example.com"
ANOTHER = "no-kubelet"


@contextlib.contextmanager
def another_node(cluster: RealCluster) -> Iterator[str]:
    """A node for pods that tolerate it. It is an object alone: nobody starts them."""
    managed = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
    labels = {"kubernetes.io/hostname": ANOTHER}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": ANOTHER, "labels": labels, "annotations": managed},
        "spec": {"taints": [{"key": ANOTHER, "effect": "NoSchedule"}]},
    }
    status = {
        "allocatable": {"cpu": "1", "memory": "1Gi", "pods": "9"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    cluster.kubectl("create", "--filename=-", stdin=json.dumps(node))
    try:
        patch = json.dumps({"status": status})
        cluster.kubectl("patch", "node", ANOTHER, "--subresource=status", f"--patch={patch}")
        yield ANOTHER
    finally:
        cluster.kubectl("delete", "node", ANOTHER)


@pytest.fixture
def block_volume(cluster: RealCluster, namespace: Namespace) -> Iterator[str]:
    """A claim whose volume is attached to one node at a time; nothing mounts it."""
    volume, claim = claimed(namespace.name, "block", "")
    del volume["spec"]["hostPath"]
    volume["spec"]["csi"] = {"driver": DRIVER, "volumeHandle": namespace.name}
    driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": {}}
    namespace.apply(volume, claim, driver)
    yield "block"
    cluster.kubectl("delete", "csidriver", DRIVER)
    cluster.kubectl("delete", "pv", volume["metadata"]["name"], "--wait=false")


def attached(cluster: RealCluster) -> bool:
    """Do what the driver does for each attachment that the controller asks for; whether there is one."""
    found = json.loads(cluster.kubectl("get", "volumeattachments", "--output=json"))["items"]
    for item in found:
        patch = ("--subresource=status", "--type=merge", '--patch={"status": {"attached": true}}')
        cluster.kubectl("patch", "volumeattachment", item["metadata"]["name"], *patch)
    return bool(found)


def on_node(name: str, node: str, claim: str) -> dict[str, Any]:
    place = {"nodeSelector": {"kubernetes.io/hostname": node}, "tolerations": [{"operator": "Exists"}]}
    service = a_breaking_service(name, **place)
    service["spec"]["predictor"]["volumes"].append({"name": "own", "persistentVolumeClaim": {"claimName": claim}})
    return service


def test_a_claim_that_another_node_has_attached_is_named(
    cluster: RealCluster, namespace: Namespace, block_volume: str
) -> None:
    first = cluster.kubectl("get", "nodes", "--output=jsonpath={.items[0].metadata.labels.kubernetes\\.io/hostname}")
    namespace.apply(on_node("attached", first, block_volume))
    eventually(lambda: attached(cluster), "its volume is attached", WITHIN)
    namespace.wait_for_condition("Ready", "True", service="attached", within=WITHIN)

    with another_node(cluster) as second:
        namespace.apply(on_node("elsewhere", second, block_volume))

        namespace.wait_for_condition("Ready", "False", "ClaimInUse", "elsewhere", WITHIN)
        assert_diagnosed(namespace, "elsewhere", "ClaimInUse", "Volume is already used by pod(s) attached-predictor")
        assert ("Warning", "ClaimInUse") in events_on(namespace, "elsewhere")
        namespace.kubectl("delete", "isvc", "attached", "elsewhere")
