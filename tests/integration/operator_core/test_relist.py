"""Deletions that no watch has reported, found on a real API server."""

from __future__ import annotations

import json

import pytest

from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.kube import requests
from isvc_operator.kube.cache import Cache, Manifest
from isvc_operator.kube.client import connect
from isvc_operator.kube.relist import remove_deleted
from tests.support.apiserver import ApiServer
from tests.support.builders import a_runtime_body
from tests.support.namespace import Namespace, story_service

LABELS = {LABEL_SERVICE: "torchserve"}


def a_child(name: str, kind: str) -> Manifest:
    """The least that the API server takes of a kind, with a service's label."""
    containers = [{"name": "c", "image": "registry.example/c:1"}]
    pod = {"metadata": {"labels": LABELS}, "spec": {"containers": containers}}
    versions = {"Deployment": "apps/v1", "Service": "v1", "Ingress": "networking.k8s.io/v1", "Pod": "v1"}
    specs = {
        "Deployment": {"selector": {"matchLabels": LABELS}, "template": pod},
        "Service": {"ports": [{"port": 80}]},
        "Ingress": {"defaultBackend": {"service": {"name": "b", "port": {"number": 80}}}},
        "Pod": pod["spec"],
    }
    return {
        "apiVersion": versions[kind], "kind": kind, "metadata": {"name": name, "labels": LABELS}, "spec": specs[kind],
    }  # fmt: skip


def a_body(name: str, kind: str) -> Manifest:
    """An object of a kind that is watched."""
    if kind == "InferenceService":
        service = story_service()
        return {**service, "metadata": {"name": name}}
    if kind in ("ServingRuntime", "ClusterServingRuntime"):
        runtime = a_runtime_body(name)
        return {**runtime, "kind": kind, "metadata": {"name": name}}
    return a_child(name, kind)


KINDS = ("InferenceService", "ServingRuntime", "ClusterServingRuntime", "Deployment", "Service", "Ingress", "Pod")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("everywhere", [True, False])
async def test_deleted_objects_are_removed_and_existing_ones_kept(
    apiserver: ApiServer, namespace: Namespace, kind: str, everywhere: bool
) -> None:
    names = [f"{namespace.name}-{name}" for name in ("there", "gone")]
    for name in names:
        namespace.apply(dict(a_body(name, kind)))
    there, gone = (namespace.find(kind, name) or {} for name in names)
    cache = Cache(LABEL_SERVICE)
    cache.put(there)
    cache.put(gone)
    namespace.kubectl("delete", kind, names[1], "--force", "--grace-period=0")

    of_cluster = kind.startswith("Cluster")
    async with connect(str(apiserver.kubeconfig)) as api:
        found = await remove_deleted(api, cache, kind, namespace="" if everywhere or of_cluster else namespace.name)
    namespace.kubectl(
        "delete", kind, names[0], "--force", "--grace-period=0"
    )  # a runtime of the cluster is everybody's

    assert [body["metadata"]["uid"] for body in found] == [gone["metadata"]["uid"]]
    assert [body["metadata"]["uid"] for body in cache.of_kind(kind)] == [there["metadata"]["uid"]]


async def test_a_list_is_of_metadata_alone(apiserver: ApiServer, namespace: Namespace) -> None:
    namespace.apply(dict(a_body("there", "Deployment")))

    async with connect(str(apiserver.kubeconfig)) as api:
        answer = json.loads(await api.send(requests.list_metadata("Deployment", namespace.name)))

    assert (answer["kind"], [sorted(item) for item in answer["items"]]) == (
        "PartialObjectMetadataList",
        [["apiVersion", "kind", "metadata"]],
    )
