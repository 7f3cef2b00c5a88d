"""Services on HTTPRoutes and GRPCRoutes of a real gateway, and the change from Ingresses and back under requests."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from kserve.protocol.grpc import grpc_predict_v2_pb2 as pb
from kserve.protocol.grpc.grpc_predict_v2_pb2_grpc import GRPCInferenceServiceStub

from tests.support.cluster import HTTP, HTTPS_PORT, RealCluster, curl
from tests.support.namespace import STORY, Namespace, small_service
from tests.support.volumes import Volume
from tests.support.waiting import eventually

SAMPLE = STORY.parent / "sample.json"
PREDICT = "/v1/models/bert:predict"
ADDRESS = "127.0.0.1:8080"
SYSTEM = "--namespace=isvc-system"
OPERATOR = (SYSTEM, "--selector=app.kubernetes.io/name=isvc-operator")
SETTINGS = {
    "enableGatewayApi": True,
    "kserveIngressGateway": "projectcontour/contour",
    "additionalIngressDomains": ["ml.test"],
    "pathTemplate": "/serving/{{ .Namespace }}/{{ .Name }}",
    "tlsSecretName": None,
}
INTERVAL = 0.1  # seconds between two requests


@dataclass
class Requests:
    """Requests on one connection, one after another, until they are stopped."""

    host: str
    statuses: list[int | str] = field(default_factory=list)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def send(self) -> None:
        connection = http.client.HTTPConnection(ADDRESS, timeout=30)
        body = SAMPLE.read_bytes()
        while not self._stopped.wait(INTERVAL):
            try:
                connection.request("POST", PREDICT, body, {"Host": self.host})
                response = connection.getresponse()
                response.read()
                self.statuses.append(response.status)
            except (OSError, http.client.HTTPException) as error:
                self.statuses.append(repr(error))
                connection.close()
        connection.close()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self.send)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()


@pytest.fixture(scope="module")
def changed(cluster: RealCluster, namespace: Namespace, leeway: Volume) -> Iterator[Requests]:
    """Two services, one of which speaks nothing but gRPC: first with Ingresses, now with routes, under requests."""
    namespace.apply(only_grpc(cluster), small_service(), a_grpc_service())
    options = ("--for=condition=Ready", "--timeout=120s")
    namespace.kubectl("wait", *options, "inferenceservice/torchserve", "inferenceservice/calls")
    requests = Requests(host(namespace))
    eventually(lambda: predict(host(namespace)) == 200, "the Ingress has the route")
    before = json.loads(cluster.kubectl("get", "configmap", "inferenceservice-config", SYSTEM, "--output=json"))
    with requests.running():
        configure(cluster, {**json.loads(before["data"]["ingress"]), **SETTINGS})
        try:
            eventually(lambda: namespace.find("ingress", "torchserve") is None, "routes replace it", within=60)
            yield requests
        finally:
            configure(cluster, json.loads(before["data"]["ingress"]))


def configure(cluster: RealCluster, ingress: dict[str, Any]) -> None:
    patch = json.dumps({"data": {"ingress": json.dumps(ingress)}})
    cluster.kubectl("patch", "configmap", "inferenceservice-config", SYSTEM, "--type=merge", f"--patch={patch}")
    # A change of the pod makes the kubelet update the mounted files at once.
    cluster.kubectl("annotate", "pods", *OPERATOR, "--overwrite", f"example.com/configured={hash(patch)}")


def only_grpc(cluster: RealCluster) -> dict[str, Any]:
    """The shipped runtime without its port for REST, for services that name it."""
    runtime = json.loads(cluster.kubectl("get", "clusterservingruntime", "isvc-mar", "--output=json"))
    server = runtime["spec"]["containers"][0]
    server["ports"] = [port for port in server["ports"] if port["name"] == "grpc"]
    runtime["spec"]["supportedModelFormats"] = [{"name": "pytorch", "version": "1"}]
    metadata = {"name": "only-grpc", "annotations": {"serving.kserve.io/server-type": "mar"}}
    return {**runtime, "kind": "ServingRuntime", "metadata": metadata}


def a_grpc_service() -> dict[str, Any]:
    service = small_service()
    service["metadata"]["name"] = "calls"
    service["spec"]["predictor"]["model"] |= {"runtime": "only-grpc", "protocolVersion": "grpc-v2"}
    return service


def host(namespace: Namespace, service: str = "torchserve", domain: str = "example.com") -> str:
    return f"{service}.{namespace.name}.{domain}"


def predict(host_name: str, path: str = "") -> int:
    return curl("-X", "POST", "-H", f"Host: {host_name}", f"{HTTP}{path}{PREDICT}", "-T", str(SAMPLE)).status


def infer(host_name: str) -> list[int]:
    """What the v2 protocol over gRPC returns for the sample."""
    (instance,) = json.loads(SAMPLE.read_text())["instances"]
    contents = pb.InferTensorContents(bytes_contents=[instance["data"].encode()])
    tensor = pb.ModelInferRequest.InferInputTensor(name="data", datatype="BYTES", shape=[1], contents=contents)
    with grpc.insecure_channel(ADDRESS, options=[("grpc.default_authority", host_name)]) as channel:
        request = pb.ModelInferRequest(model_name="bert", inputs=[tensor])
        response = GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=30)
    if response.raw_output_contents:
        return [int.from_bytes(raw, "little") for raw in response.raw_output_contents]
    return [int(value) for value in response.outputs[0].contents.int64_contents]


def test_the_condition_is_that_of_the_gateway(changed: Requests, namespace: Namespace) -> None:
    route = namespace.wait_for("httproute", "torchserve")
    (parent,) = route["status"]["parents"]

    assert parent["controllerName"] == "projectcontour.io/gateway-controller"
    assert {item["type"]: item["status"] for item in parent["conditions"]} == {
        "Accepted": "True",
        "ResolvedRefs": "True",
    }
    assert namespace.condition("IngressReady")["status"] == "True"


def test_every_host_and_the_path_on_the_shared_host_lead_to_the_service(
    changed: Requests, namespace: Namespace
) -> None:
    path = f"/serving/{namespace.name}/torchserve"
    service = namespace.wait_for("inferenceservice", "torchserve")

    assert service["status"]["url"] == f"http://example.com{path}"
    assert predict("example.com", path) == 200
    assert predict("example.com", f"{path}er") == 404
    assert [predict(host(namespace, domain=domain)) for domain in ("example.com", "ml.test")] == [200, 200]
    assert predict(host(namespace, "torchserve-predictor")) == 200


def test_https_ends_at_the_gateway(changed: Requests, namespace: Namespace) -> None:
    name = host(namespace)
    url = f"https://{name}:{HTTPS_PORT}{PREDICT}"

    answer = curl("-k", "-X", "POST", "--resolve", f"{name}:{HTTPS_PORT}:127.0.0.1", url, "-T", str(SAMPLE))

    assert (answer.status, answer.json) == (200, {"predictions": [4]})


def test_grpc_has_the_same_host_as_rest(changed: Requests, namespace: Namespace) -> None:
    assert infer(host(namespace)) == [4]


def test_a_server_that_speaks_only_grpc_has_a_grpcroute(changed: Requests, namespace: Namespace) -> None:
    assert namespace.find("httproute", "calls") is None
    assert namespace.wait_for("grpcroute", "calls")["spec"]["hostnames"][0] == host(namespace, "calls")
    assert infer(host(namespace, "calls")) == [4]


def test_no_request_has_failed_and_none_fails_on_the_way_back(
    changed: Requests, cluster: RealCluster, namespace: Namespace
) -> None:
    configure(cluster, {"ingressClassName": "contour", "kserveIngressGateway": "projectcontour/contour"})
    eventually(lambda: namespace.find("ingress", "torchserve") is not None, "the Ingress is there", within=60)

    assert len(changed.statuses) > 100
    assert set(changed.statuses) == {200}
