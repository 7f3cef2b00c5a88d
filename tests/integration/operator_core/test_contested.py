"""Other clients that fight for what the operator has applied, on a real API server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.operator_core.conftest import new_namespace
from tests.support.apiserver import ApiServer, install_runtime
from tests.support.contending_clients import Change, rival, webhook
from tests.support.namespace import Namespace, story_service
from tests.support.operator_process import OPERATOR, metrics_of, operator
from tests.support.ports import free_port
from tests.support.waiting import eventually

SERVER = "kserve-container"
# How often the operator may write to a child before the condition has been seen: when it is created, when its fields
# are adopted, three restores at once, and those of the first waits on a slow machine.
MOST_WRITES = 8


@dataclass(frozen=True)
class Fight:
    """Somebody who changes a child of the service called ``name``, and what the condition says of it."""

    name: str
    kind: str
    change: Change
    says: str

    @property
    def child(self) -> str:
        return self.name if self.kind == "ingress" else f"{self.name}-predictor"


def rewrite_image(deployment: dict[str, Any]) -> dict[str, Any] | None:
    """A controller that makes images come from a mirror, if an annotation asks for it."""
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    if container["image"].startswith("mirror.example/"):
        return None
    image = f"mirror.example/{container['image']}"
    return {"spec": {"template": {"spec": {"containers": [{"name": container["name"], "image": image}]}}}}


def set_replicas(deployment: dict[str, Any]) -> dict[str, Any] | None:
    return None if deployment["spec"]["replicas"] == 3 else {"spec": {"replicas": 3}}


def remove_label(service: dict[str, Any]) -> dict[str, Any] | None:
    """A controller that removes a label which is not on its list."""
    return {"metadata": {"labels": {"component": None}}} if "component" in service["metadata"]["labels"] else None


def delete(_: dict[str, Any]) -> dict[str, Any]:
    return {}


FIGHTS = (
    Fight(
        "rewritten",
        "deployment",
        rewrite_image,
        "Deployment rewritten-predictor: rival changes spec.template.spec.containers[kserve-container].image",
    ),
    Fight("scaled", "deployment", set_replicas, "Deployment scaled-predictor: rival changes spec.replicas"),
    Fight(
        "relabelled",
        "service",
        remove_label,
        "Service relabelled-predictor: another client (the API server's audit log says which) changes "
        "metadata.labels.component",
    ),
    Fight("deleted", "ingress", delete, "Ingress deleted is deleted again and again"),
)
WEBHOOK = [
    {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "mirror.example/any:1"},
    {"op": "add", "path": "/spec/template/metadata/annotations/policy.example.com~1seen", "value": "yes"},
    {"op": "remove", "path": "/spec/progressDeadlineSeconds"},
]


def a_service(name: str, **predictor: Any) -> dict[str, Any]:
    service = story_service(name)
    service["spec"]["predictor"].update(predictor)
    return service


def uri_of(namespace: Namespace, kind: str, name: str) -> str:
    root = {"deployment": "apis/apps/v1", "service": "api/v1", "ingress": "apis/networking.k8s.io/v1"}[kind]
    return f"/{root}/namespaces/{namespace.name}/{kind}{'es' if kind.endswith('s') else 's'}/{name}"


def writes_to(server: ApiServer, namespace: Namespace, name: str, since: int = 0) -> int:
    """Only the line after an answer has the name of what was created."""
    done = [event for event in server.audit_events(since) if event["stage"] == "ResponseComplete"]
    written = [event for event in done if event["verb"] in ("create", "patch")]
    targets = [event["objectRef"] for event in written if event["userAgent"].startswith(OPERATOR)]
    in_namespace = [target for target in targets if target.get("namespace") == namespace.name]
    return sum(target.get("name") == name and target["resource"] != "inferenceservices" for target in in_namespace)


@pytest.fixture(scope="module")
def fought_over(apiserver: ApiServer) -> Namespace:
    install_runtime(apiserver)
    return new_namespace(apiserver)


@pytest.fixture(scope="module")
def port(apiserver: ApiServer, fought_over: Namespace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The health port of an operator that watches this namespace."""
    found = free_port()
    log = tmp_path_factory.mktemp("contested") / "operator.log"
    with operator(apiserver, log, f"--namespace={fought_over.name}", f"--health-port={found}"):
        yield found
    assert "Traceback" not in log.read_text()


def metrics(port: int) -> dict[str, float]:
    families = text_string_to_metric_families(metrics_of(port))
    return {" ".join((item.name, *item.labels.values())): item.value for family in families for item in family.samples}


def test_a_fight_for_a_field_ends_in_a_condition_and_is_over_when_the_other_client_stops(
    apiserver: ApiServer, fought_over: Namespace, port: int
) -> None:
    for fight in FIGHTS:
        fought_over.apply(a_service(fight.name, minReplicas=1))
        fought_over.wait_for(fight.kind, fight.child)
    with contextlib.ExitStack() as fighting:
        for fight in FIGHTS:
            uri = uri_of(fought_over, fight.kind, fight.child)
            fighting.enter_context(rival(apiserver, uri, fight.change, manager="rival"))
        for fight in FIGHTS:
            condition = fought_over.wait_for_condition("SpecNotApplied", "True", "ChangedByOthers", fight.name)
            assert condition["message"].startswith(fight.says)
        counted = metrics(port)
    assert {fight.name for fight in FIGHTS if writes_to(apiserver, fought_over, fight.child) > MOST_WRITES} == set()
    assert counted["isvc_operator_children_contested"] > 0
    restored = {kind: counted[f"isvc_operator_children_restored_total {kind}"] for kind in ("Deployment", "Ingress")}
    assert min(restored.values()) >= 3

    for fight in FIGHTS:
        eventually(
            lambda name=fight.name: not fought_over.condition("SpecNotApplied", name), f"{fight.name} is at peace"
        )
        child = fought_over.wait_for(fight.kind, fight.child)
        assert fight.change(child) is not None  # it is as rendered again


def test_what_a_webhook_changes_in_each_write_is_reported_and_not_written_again(
    apiserver: ApiServer, fought_over: Namespace, port: int, tmp_path: Path
) -> None:
    with webhook(apiserver, fought_over.name, tmp_path, WEBHOOK):
        fought_over.apply(a_service("mutated"))
        condition = fought_over.wait_for_condition("SpecNotApplied", "True", "FieldsNotKept", "mutated")
        since = apiserver.position()
        for number in range(3):
            fought_over.kubectl("annotate", "deployment", "mutated-predictor", f"number={number}", "--overwrite")
        fought_over.apply(a_service("after"))
        fought_over.wait_for_condition("SpecNotApplied", "True", "FieldsNotKept", "after")
    assert condition["message"].startswith(
        "Deployment mutated-predictor: the API server does not keep "
        "spec.template.spec.containers[kserve-container].image as applied."
    )
    assert writes_to(apiserver, fought_over, "mutated-predictor", since) == 0


def test_a_field_whose_feature_is_off_is_reported_and_not_written_again(
    apiserver: ApiServer, fought_over: Namespace, port: int
) -> None:
    fought_over.apply(a_service("gated", hostnameOverride="gated"))  # an alpha feature of this API server
    condition = fought_over.wait_for_condition("SpecNotApplied", "True", "FieldsNotKept", "gated")
    assert "spec.template.spec.hostnameOverride" in condition["message"]


def status_writes(server: ApiServer, namespace: Namespace, since: int) -> int:
    """How often the operator has written the status of a service of the namespace."""
    events = [event for event in server.audit_events(since) if event["stage"] == "ResponseComplete"]
    targets = [event["objectRef"] for event in events if event["userAgent"].startswith(OPERATOR)]
    return sum(
        target.get("namespace") == namespace.name and target.get("subresource") == "status" for target in targets
    )


def test_a_fight_writes_the_status_as_seldom_as_the_child(apiserver: ApiServer, tmp_path: Path) -> None:
    """Somebody edits the pods thirty times, and the Deployment's controller follows each time."""
    install_runtime(apiserver)
    namespace = new_namespace(apiserver)
    with operator(apiserver, tmp_path / "operator.log", f"--namespace={namespace.name}"):
        namespace.apply(a_service("fought", minReplicas=1))
        namespace.play_finished_rollout("fought-predictor")
        namespace.wait_for_condition("Ready", "True", service="fought")
        since = apiserver.position()
        for number in range(30):
            namespace.kubectl("set", "image", "deployment", "fought-predictor", f"{SERVER}=mine:{number}")
            namespace.patch_status("deployment", "fought-predictor", {"updatedReplicas": 0})
            namespace.play_finished_rollout("fought-predictor")
        writes = writes_to(apiserver, namespace, "fought-predictor", since), status_writes(apiserver, namespace, since)
    assert writes[0] <= MOST_WRITES
    assert writes[1] <= 3 * MOST_WRITES  # for each of the first three edits, and then one for each restore
