"""`isvc doctor` on a real API server with everything that is installed: each line is ok, or says what to do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from isvc.commands import main
from isvc.migrate.names import MIGRATION
from isvc_operator import __version__
from tests.integration.cli.conftest import HOME, TEAM
from tests.support.apiserver import ApiServer
from tests.support.doc_shell import exchanges, find, plain
from tests.support.namespace import story_service

Captured = pytest.CaptureFixture[str]
IMAGE = f"localhost/isvc-operator/operator:{__version__}"
CRDS = (
    "inferenceservices",
    "servingruntimes",
    "clusterservingruntimes",
    "clusterstoragecontainers",
)


def doctor(server: ApiServer, capsys: Captured, *arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and what is not ok by its subject."""
    code = main(["doctor", f"--kubeconfig={server.kubeconfig}", "-n", TEAM, "-o", "json", *arguments])
    checks = json.loads(capsys.readouterr().out)["checks"]
    return code, {item["subject"]: (item["verdict"], item["message"]) for item in checks if item["verdict"] != "ok"}


def test_a_cluster_that_has_everything_is_ok_in_each_line(server: ApiServer, capsys: Captured) -> None:
    since = server.position()

    assert main(["doctor", f"--kubeconfig={server.kubeconfig}", "-n", TEAM]) == 0

    assert capsys.readouterr().out.splitlines() == [
        f"ok      cluster: Kubernetes {server.send('GET', '/version')['gitVersion']} at {server.base_url}",
        *(f"ok      crd {name}.serving.kserve.io: installed, as in {__version__}" for name in CRDS),
        f"ok      operator: isvc-system/isvc-operator is ready (1 of 1): {IMAGE}",
        "ok      rights: you may use services and their pods in namespace team",
        "ok      configuration: every setting of inferenceservice-config is used",
        "ok      ingress: the default IngressClass is contour of projectcontour.io/contour",
        "ok      runtimes: isvc-mar, isvc-onnx, kserve-torchserve",
        "ok      storage secret: storage-config does not exist in namespace team; only services with `storage.key` "
        "need it",
        "ok      services: 1 in namespace team; the spec of each can be served",
    ]
    verbs = {call.verb for call in server.calls("isvc", since) if call.resource != "selfsubjectaccessreviews"}
    assert verbs == {"get", "list"}


def test_a_cluster_without_an_installation_is_the_one_of_the_page(
    apiserver: ApiServer, namespace: str, capsys: Captured
) -> None:
    apiserver.kubectl("delete", "clusterservingruntimes,ingressclasses", "--all")  # of other tests
    apiserver.kubectl("delete", "deployments,configmaps", "--all", f"--namespace={HOME}")
    apiserver.apply(namespace, story_service())
    ((command, shown),) = exchanges(find("docs/doctor.md: $ isvc doctor").text)

    assert main([*command.replace(" team", f" {namespace}").split()[1:], f"--kubeconfig={apiserver.kubeconfig}"]) == 1

    said = plain(capsys.readouterr().out.replace(namespace, TEAM))
    version = re.compile(r"v1\.\d+\.\d+")
    assert version.sub("v1", said) == version.sub("v1", plain(shown))


@pytest.mark.parametrize(
    ("model", "predictor", "words"),
    [
        ({"storageUri": "s3://models/bert"}, {"serviceAccountName": "absent"}, "service account absent does not exist"),
        ({"storageUri": None, "storage": {"key": "absent", "path": "a"}}, {}, "storage-config"),
        ({"modelFormat": {"name": "abacus"}}, {}, "no runtime serves model format 'abacus'"),
    ],
    ids=["service account", "secret", "runtime"],
)
def test_what_a_service_refers_to_is_looked_up(
    server: ApiServer, capsys: Captured, model: dict[str, Any], predictor: dict[str, Any], words: str
) -> None:
    service = story_service()
    service["metadata"]["name"] = "other"
    given = {**service["spec"]["predictor"]["model"], **model}
    service["spec"]["predictor"] |= predictor | {"model": {name: item for name, item in given.items() if item}}
    server.apply(TEAM, service)
    try:
        code, found = doctor(server, capsys)
    finally:
        server.kubectl("delete", "isvc", "other", f"--namespace={TEAM}")

    assert (code, set(found)) == (1, {"service other"})
    verdict, message = found["service other"]
    assert verdict == "problem"
    assert words in message


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (
            {"type": "AutoscalerProblem", "status": "True", "reason": "ScalingInactive", "message": "no metrics"},
            {"service other": ("warning", "no metrics")},
        ),
        (
            {"type": "Ready", "status": "False", "reason": "PodsRefused", "message": "exceeded quota"},
            {"services": ("warning", "1 of 2 in namespace team has failed: other; isvc status -n team says why")},
        ),
    ],
    ids=["autoscaler", "failed"],
)
def test_a_condition_of_a_service_that_can_be_served_is_a_warning(
    server: ApiServer, capsys: Captured, condition: dict[str, str], found: dict[str, tuple[str, str]]
) -> None:
    service = story_service()
    service["metadata"]["name"] = "other"
    server.apply(TEAM, service)
    patch = json.dumps({"status": {"conditions": [condition]}})
    try:
        arguments = ("--subresource=status", "--type=merge", f"--patch={patch}")
        server.kubectl("patch", "isvc", "other", f"--namespace={TEAM}", *arguments)
        told = doctor(server, capsys)
    finally:
        server.kubectl("delete", "isvc", "other", f"--namespace={TEAM}")

    assert told == (3, found)


def test_settings_without_effect_are_warnings_and_exit_code_3(server: ApiServer, capsys: Captured) -> None:
    kept = server.find(HOME, "ConfigMap", "inferenceservice-config")
    assert kept
    patch = {"data": {"router": "{}"}}
    server.kubectl(f"-n={HOME}", "patch", "configmap/inferenceservice-config", f"--patch={json.dumps(patch)}")
    try:
        code, found = doctor(server, capsys)
    finally:
        server.kubectl(f"-n={HOME}", "patch", "configmap/inferenceservice-config", '--patch={"data": {"router": null}}')

    assert code == 3
    message = "no effect: router (an InferenceGraph is not served); remove it"
    assert found == {"configuration": ("warning", message)}


def test_a_gateway_that_is_configured_and_not_installed_is_named(server: ApiServer, capsys: Captured) -> None:
    kept = server.find(HOME, "ConfigMap", "inferenceservice-config")
    assert kept
    gateway = json.dumps({"data": {"ingress": '{"enableGatewayApi": true}'}})
    server.kubectl(f"-n={HOME}", "patch", "configmap/inferenceservice-config", f"--patch={gateway}")
    try:
        code, found = doctor(server, capsys)
    finally:
        back = json.dumps({"data": {"ingress": kept["data"]["ingress"]}})
        server.kubectl(f"-n={HOME}", "patch", "configmap/inferenceservice-config", f"--patch={back}")

    assert code == 1
    assert found == {"ingress": ("problem", "the Gateway API is not installed; install it, v1.1 or newer")}


@pytest.mark.parametrize(
    ("namespace", "holder"), [("kserve", "manager"), ("elsewhere", "manager"), ("changing-over", MIGRATION)]
)
def test_a_manager_of_kserve_that_runs_beside_the_operator_is_found_in_any_namespace(
    namespace: str, holder: str, server: ApiServer, capsys: Captured
) -> None:
    manager, manages = "kserve-controller-manager", "changes the same services as isvc-operator"
    lease = {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": f"{manager}-leader-lock"}}
    server.create_namespace(namespace)
    try:
        server.kubectl("create", "deployment", manager, "--image=a", f"--namespace={namespace}")
        server.apply(namespace, lease | {"spec": {"holderIdentity": holder}})
        code, found = doctor(server, capsys)
    finally:
        server.kubectl("delete", f"deployment/{manager}", f"lease/{manager}-leader-lock", f"--namespace={namespace}")

    assert (code, set(found)) == ((0, set()) if holder == MIGRATION else (1, {"kserve"}))
    assert all(f"{namespace}/{manager} runs, and {manages}" in message for _, message in found.values())


def test_who_may_read_little_is_told_what_could_not_be_read(
    server: ApiServer, capsys: Captured, tmp_path: Path
) -> None:
    server.kubectl("create", "serviceaccount", "guest", f"--namespace={TEAM}")
    config = json.loads(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": server.kubectl(f"-n={TEAM}", "create", "token", "guest").strip()}
    (tmp_path / "config").write_text(json.dumps(config))

    code, found = doctor(server, capsys, f"--kubeconfig={tmp_path / 'config'}")

    assert code == 3
    assert {subject: verdict for subject, (verdict, _) in found.items()} == {
        **{f"crd {name}.serving.kserve.io": "unknown" for name in CRDS},
        "operator": "unknown",
        "kserve": "unknown",
        "rights": "warning",
        "configuration": "unknown",
        "ingress": "unknown",
        "runtimes": "unknown",
        "services": "unknown",
    }
    assert "get pods/log (isvc logs)" in found["rights"][1]


def test_a_namespace_that_does_not_exist_is_said(server: ApiServer, capsys: Captured) -> None:
    assert main(["doctor", f"--kubeconfig={server.kubeconfig}", "-n", "nosuchns"]) == 1

    lines = capsys.readouterr().out.splitlines()
    assert "problem namespace: nosuchns does not exist; create it, or name another one with --namespace" in lines
    assert [line for line in lines if "rights:" in line or "services:" in line] == []


def test_the_keys_of_the_storage_secret_are_named(server: ApiServer, capsys: Captured) -> None:
    server.kubectl(f"-n={TEAM}", "create", "secret", "generic", "storage-config", "--from-literal=store={}")
    try:
        assert main(["doctor", f"--kubeconfig={server.kubeconfig}", "-n", TEAM]) == 0
    finally:
        server.kubectl(f"-n={TEAM}", "delete", "secret", "storage-config")

    assert "ok      storage secret: storage-config has the keys store" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("minor", "creates"), [("34", False), ("35+", True)])
def test_the_right_to_forward_ports_is_that_of_the_version(
    minor: str, creates: bool, server: ApiServer, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client sends GET; since 1.35 the API server asks for `create`, too."""

    async def version(_: object) -> dict[str, str]:
        return {"major": "1", "minor": minor}

    monkeypatch.setattr("isvc.doctor.examine.server_version", version)
    since = server.position()

    doctor(server, capsys)

    reviews = [call for call in server.calls("isvc", since) if call.resource == "selfsubjectaccessreviews"]
    assert len(reviews) == 9 + creates
