"""Children on a real API server: labelled again, deleted slowly, with other ports, closed, and waiting for a Secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.apiserver import ApiServer
from tests.support.namespace import Namespace, story_service
from tests.support.object_stores import tls
from tests.support.operator_process import OPERATOR
from tests.support.waiting import eventually

PREDICTOR = "torchserve-predictor"
NETWORK_POLICY = "isvc-operator.io/network-policy"
LABEL = "serving.kserve.io/inferenceservice"


@pytest.mark.parametrize("label", [f"{LABEL}-", f"{LABEL}=another"])
def test_a_child_that_others_label_otherwise_is_labelled_again_and_watched(
    running_operator: None, namespace: Namespace, label: str
) -> None:
    namespace.apply_story()
    children = (("deployment", PREDICTOR), ("service", PREDICTOR), ("ingress", "torchserve"))
    for kind, name in children:
        uid = namespace.wait_for(kind, name)["metadata"]["uid"]
        namespace.kubectl("label", "--overwrite", kind, name, label)

        def is_back(kind: str = kind, name: str = name, uid: str = uid) -> bool:
            metadata = (namespace.find(kind, name) or {})["metadata"]
            return (metadata["uid"], metadata.get("labels", {}).get(LABEL)) == (uid, "torchserve")

        eventually(is_back, f"the label of the {kind} is back")
    namespace.play_finished_rollout()
    namespace.wait_for_condition("Ready", "True")


def test_a_child_that_ends_slowly_is_deleted_once_and_made_again_when_it_is_wanted(
    running_operator: None, apiserver: ApiServer, namespace: Namespace
) -> None:
    """Another controller keeps it by a finalizer, and writes to it meanwhile."""
    ingress = ("ingress", "torchserve")
    namespace.apply_story()
    namespace.wait_for(*ingress)
    patch = ("patch", *ingress, "--type=merge")
    namespace.kubectl(*patch, '--patch={"metadata": {"finalizers": ["example.com/load-balancer"]}}')
    since = apiserver.position()
    namespace.kubectl("annotate", "inferenceservice", "torchserve", "serving.kserve.io/stop=true")
    eventually(lambda: (namespace.find(*ingress) or {})["metadata"].get("deletionTimestamp"), "the Ingress ends")
    for number in range(6):
        namespace.kubectl("annotate", *ingress, f"step={number}", "--overwrite")
    namespace.wait_for_condition("Stopped", "True")
    eventually(lambda: namespace.find("deployment", PREDICTOR) is None, "the Deployment is deleted")
    calls = [call for call in apiserver.calls(OPERATOR, since) if call.namespace == namespace.name]
    assert sum((call.verb, call.resource) == ("delete", "ingresses") for call in calls) == 1
    assert not namespace.condition("SpecNotApplied")

    namespace.kubectl("annotate", "inferenceservice", "torchserve", "serving.kserve.io/stop-")
    namespace.wait_for("deployment", PREDICTOR)
    namespace.kubectl(*patch, '--patch={"metadata": {"finalizers": null}}')

    def is_new() -> bool:
        found = namespace.find(*ingress)
        return found is not None and "deletionTimestamp" not in found["metadata"]

    eventually(is_new, "the Ingress is made again")


def test_port_80_of_a_running_service_moves_to_grpc_and_back(running_operator: None, namespace: Namespace) -> None:
    def ports_for(protocol: str, expected: dict[int, str]) -> None:
        model = {"modelFormat": {"name": "pytorch"}, "protocolVersion": protocol}
        namespace.apply_story(model=model)

        def moved() -> bool:
            service = namespace.find("service", PREDICTOR)
            return bool(service) and {port["port"]: port["name"] for port in service["spec"]["ports"]} == expected

        eventually(moved, f"the Service has the ports of {protocol}")

    ports_for("v2", {80: "http", 8081: "grpc"})
    ports_for("grpc-v2", {80: "grpc", 8080: "http"})
    ports_for("v1", {80: "http", 8081: "grpc"})


def test_a_service_is_closed_to_other_namespaces_and_opened_again(running_operator: None, namespace: Namespace) -> None:
    def level(text: str) -> None:
        namespace.kubectl("annotate", "--overwrite", "inferenceservice", "torchserve", f"{NETWORK_POLICY}={text}")

    namespace.apply_story()
    level("namespace")
    assert namespace.wait_for("networkpolicy", "torchserve-predictor")["spec"] == {
        "podSelector": {"matchLabels": {"app": "isvc.torchserve-predictor"}},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {}}]}],
    }

    level("none")
    eventually(lambda: not namespace.find("networkpolicy", "torchserve-predictor"), "the policy is deleted")


def test_a_service_waits_for_the_secret_that_it_serves_tls_with(
    running_operator: None, namespace: Namespace, tmp_path: Path
) -> None:
    service = story_service()
    service["metadata"]["annotations"] = {"isvc-operator.io/tls-secret": "certs"}
    namespace.apply(service)
    said = namespace.wait_for_condition("Ready", "False", "InvalidCertificate")["message"]
    assert said.startswith("secret certs, which the pods are to serve TLS with, does not exist")
    assert namespace.find("deployment", PREDICTOR) is None

    issued = tls.issue(tmp_path)
    namespace.kubectl("create", "secret", "tls", "certs", f"--cert={issued.chain}", f"--key={issued.key}")
    pod = namespace.wait_for("deployment", PREDICTOR)["spec"]["template"]["spec"]
    assert "serving-tls" in [volume["name"] for volume in pod["volumes"]]
    missing = namespace.wait_for_condition("CertificateProblem", "True", "HostsMissing")["message"]
    assert f"is not for {PREDICTOR}.{namespace.name}.svc.cluster.local" in missing
