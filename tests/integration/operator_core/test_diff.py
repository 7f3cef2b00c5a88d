"""`isvc diff` beside a real operator: it foresees what applying a file changes, and writes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from isvc.commands import main
from isvc.diff.changes import Actor, change_of
from tests.support.apiserver import ApiServer
from tests.support.doc_shell import exchanges, find
from tests.support.namespace import Namespace, story_service
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("running_operator")
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def service(namespace: Namespace, tmp_path: Path) -> dict[str, Any]:
    """The story's service, applied by kubectl and rolled out; a file has it, too."""
    made = story_service()
    write(tmp_path, made)
    namespace.kubectl("apply", f"--filename={tmp_path / 'service.yaml'}")
    for kind in ("service", "ingress", "deployment"):
        namespace.wait_for(kind, "torchserve" if kind == "ingress" else "torchserve-predictor")
    namespace.play_finished_rollout()
    namespace.wait_until_ready()
    return made


def write(folder: Path, *bodies: dict[str, Any]) -> None:
    (folder / "service.yaml").write_text(yaml.safe_dump_all(bodies))


def diff(server: ApiServer, namespace: Namespace, folder: Path, *more: str) -> int:
    return main(
        ["diff", str(folder / "service.yaml"), f"--kubeconfig={server.kubeconfig}", "-n", namespace.name, *more]
    )


def test_a_misspelt_field_of_a_pod_is_named_as_in_the_file(
    apiserver: ApiServer, namespace: Namespace, tmp_path: Path, capsys: Captured
) -> None:
    service = story_service()
    service["spec"]["predictor"]["model"]["resources"] = {"limit": {"cpu": 1}}
    write(tmp_path, service)

    assert diff(apiserver, namespace, tmp_path) == 2

    assert capsys.readouterr().err.splitlines()[-1] == (
        "isvc: InferenceService torchserve: spec.predictor.model.resources.limit: unknown field (did you mean limits?)"
    )


def test_two_replicas_differ_as_the_page_shows(
    apiserver: ApiServer, namespace: Namespace, service: dict[str, Any], tmp_path: Path, capsys: Captured
) -> None:
    service["spec"]["predictor"] |= {"minReplicas": 2, "maxReplicas": 2}
    write(tmp_path, service)
    ((_, shown),) = exchanges(find("docs/diff.md: $ isvc diff service.yaml").text)

    assert diff(apiserver, namespace, tmp_path) == 1

    assert capsys.readouterr().out.replace(namespace.name, "team") == shown.rstrip("\n") + "\n"


def test_what_applying_changes_is_what_happens_then(
    apiserver: ApiServer, namespace: Namespace, service: dict[str, Any], tmp_path: Path, capsys: Captured
) -> None:
    predictor = service["spec"]["predictor"]
    predictor["minReplicas"] = 2
    predictor["model"]["env"] = [{"name": "COLOUR", "value": "blue"}]
    del predictor["model"]["protocolVersion"]
    write(tmp_path, service)
    before = snapshot(namespace)
    position = apiserver.position()

    assert diff(apiserver, namespace, tmp_path, "-o", "json") == 1

    foreseen = json.loads(capsys.readouterr().out)["changes"]
    assert {(item["actor"], item["action"], item["kind"], item["name"]) for item in foreseen} == {
        ("apply", "update", "InferenceService", "torchserve"),
        ("operator", "update", "Deployment", "torchserve-predictor"),
        ("operator", "create", "PodDisruptionBudget", "torchserve-predictor"),
    }
    calls = [call for call in apiserver.calls("isvc", position) if call.user_agent == "isvc"]
    writes = [call.uri for call in calls if call.verb not in ("get", "list", "watch")]
    assert writes, calls
    assert all("dryRun=All" in uri for uri in writes)
    assert snapshot(namespace) == before

    namespace.kubectl("apply", f"--filename={tmp_path / 'service.yaml'}")
    eventually(
        lambda: (namespace.find("deployment", "torchserve-predictor") or {})["spec"]["replicas"] == 2,
        "the operator has applied it",
    )
    for item in foreseen:
        now = namespace.wait_for(item["kind"].lower(), item["name"])
        if item["action"] == "create":
            continue
        happened = change_of(Actor(item["actor"]), before[item["kind"]], now)
        assert happened
        assert list(happened.lines) == item["diff"]
    assert diff(apiserver, namespace, tmp_path) == 0


def snapshot(namespace: Namespace) -> dict[str, dict[str, Any]]:
    """The service and its Deployment, as people write them."""
    found = {
        "InferenceService": namespace.find("inferenceservice", "torchserve"),
        "Deployment": namespace.find("deployment", "torchserve-predictor"),
    }
    return {
        kind: {name: value for name, value in body.items() if name != "status"} for kind, body in found.items() if body
    }


def test_a_new_service_is_shown_with_its_children(
    apiserver: ApiServer, namespace: Namespace, tmp_path: Path, capsys: Captured
) -> None:
    write(tmp_path, story_service())

    assert diff(apiserver, namespace, tmp_path) == 1

    printed = capsys.readouterr().out
    heads = [line for line in printed.splitlines() if line.startswith("+++ ")]
    assert heads == [
        f"+++ InferenceService {namespace.name}/torchserve (after apply)",
        f"+++ Deployment {namespace.name}/torchserve-predictor (after operator)",
        f"+++ Service {namespace.name}/torchserve-predictor (after operator)",
        f"+++ Ingress {namespace.name}/torchserve (after operator)",
    ]
    assert namespace.find("inferenceservice", "torchserve") is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"minReplicas": 3, "maxReplicas": 2}, "InferenceService torchserve would be refused: "),
        (
            {"model": {"modelFormat": {"name": "pytorch"}, "env": [{"name": "A", "value": 3}]}},
            'InferenceService torchserve would be refused: InferenceService.serving.kserve.io "torchserve" is invalid: '
            '[spec.predictor.model.env[0].value: Invalid value: "integer": must be of type string: "integer"]\n',
        ),
        ({"model": {"modelFormat": {"name": "abacus"}}}, "InferenceService torchserve could not be served: no runtime"),
    ],
    ids=["refused by the API server", "of another type", "not served"],
)
def test_a_file_that_cannot_be_applied_or_served_is_exit_code_2(
    apiserver: ApiServer, namespace: Namespace, tmp_path: Path, capsys: Captured, change: dict[str, Any], words: str
) -> None:
    made = story_service()
    made["spec"]["predictor"] |= change
    write(tmp_path, made)

    assert diff(apiserver, namespace, tmp_path) == 2

    assert f"isvc: {tmp_path}/service.yaml: {words}" in capsys.readouterr().err


def test_who_may_only_read_gets_the_fields_that_differ(
    apiserver: ApiServer, namespace: Namespace, service: dict[str, Any], tmp_path: Path, capsys: Captured
) -> None:
    namespace.kubectl("create", "serviceaccount", "reader")
    namespace.kubectl("create", "clusterrolebinding", f"{namespace.name}-reader", "--clusterrole=reads-all",
                      f"--serviceaccount={namespace.name}:reader")  # fmt: skip
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reads-all"}}
    apiserver.kubectl("apply", "--filename=-", stdin=json.dumps({**role, "rules": rules}))
    config = json.loads(apiserver.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": namespace.kubectl("create", "token", "reader").strip()}
    (tmp_path / "config").write_text(json.dumps(config))
    service["spec"]["predictor"]["model"]["env"] = [{"name": "COLOUR", "value": "blue"}]
    write(tmp_path, service)

    assert diff(apiserver, namespace, tmp_path, f"--kubeconfig={tmp_path / 'config'}") == 1

    printed = capsys.readouterr()
    assert "+      - name: COLOUR" in printed.out
    assert f"Deployment {namespace.name}/torchserve-predictor (after operator)" in printed.out
    assert "! spec.template.spec.containers[kserve-container].env[COLOUR] (now null)" in printed.out
    assert "isvc: note: you may not ask what applying InferenceService torchserve does" in printed.err
