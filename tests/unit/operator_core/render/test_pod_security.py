"""Rendered pods pass the `restricted` Pod Security Standard; with `podSecurity`, those that do not are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from isvc.run.documents import parse_documents
from isvc.run.files import read_runtimes
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.errors import InvalidSpec
from isvc_operator.limits import NAMED
from isvc_operator.render.deployment import build_deployment
from isvc_operator.render.pod_security import check_pod_security, refused_fields
from tests.support.builders import a_resolved, a_service, a_service_body, the_children, the_shipped_runtime_body
from tests.support.reconcile_fixture import cluster_with

ROOT = Path(__file__).parents[4]

Pod = dict[str, Any]
Container = dict[str, Any]


def containers_of(pod: Pod) -> list[Container]:
    return [*pod.get("initContainers", []), *pod["containers"]]


SHIPPED = parse_documents(read_runtimes(None), "default").runtimes
OPTIONAL = parse_documents(read_runtimes(ROOT / "manifests" / "runtimes-kserve"), "default").runtimes


def for_each(*runtimes: ServingRuntime) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("runtime", runtimes, ids=lambda runtime: runtime.metadata.name)


def pod_of(runtime: ServingRuntime, **model: Any) -> Pod:
    """The pod of a model of the runtime's first format."""
    name = runtime.spec.supported_model_formats[0].name
    fitting = {"modelFormat": {"name": name}, "protocolVersion": runtime.spec.protocol_versions[0]}
    pod: Pod = the_children(a_service(model={**fitting, **model}), runtime)["Deployment"]["spec"]["template"]["spec"]
    return pod


@for_each(*SHIPPED, *OPTIONAL)
@pytest.mark.parametrize("uri", ["pvc://leeway", "s3://bucket/model"])
def test_the_pod_is_restricted(uri: str, runtime: ServingRuntime) -> None:
    assert list(refused_fields({"metadata": {}, "spec": pod_of(runtime, storageUri=uri)})) == []


@for_each(*SHIPPED)
def test_every_container_of_ours_has_a_read_only_root(runtime: ServingRuntime) -> None:
    assert all(item["securityContext"]["readOnlyRootFilesystem"] for item in containers_of(pod_of(runtime)))


@for_each(*SHIPPED, *OPTIONAL)
def test_the_pod_gets_no_api_token(runtime: ServingRuntime) -> None:
    assert pod_of(runtime)["automountServiceAccountToken"] is False


OWN = {"containers": [{"image": "registry.example/mine:1"}]}
OF_OWN_CONTAINERS: dict[str, dict[str, Any]] = {
    "transformer": {"spec": {"transformer": OWN}},
    "explainer": {"spec": {"explainer": OWN}},
    "predictor": {"model": None, "predictor": OWN},
}


@pytest.mark.parametrize("kind", OF_OWN_CONTAINERS)
def test_so_is_the_pod_of_own_containers_that_say_nothing(kind: str) -> None:
    resolved = a_resolved(a_service(**OF_OWN_CONTAINERS[kind]))
    (component,) = [item for item in resolved.components if item.kind == kind]
    pod = build_deployment(resolved, component, OperatorConfig())["spec"]["template"]["spec"]

    assert list(refused_fields({"metadata": {}, "spec": pod})) == []
    assert pod["automountServiceAccountToken"] is False


def a_policy(*namespaces: str) -> OperatorConfig:
    return parse_config({"podSecurity": json.dumps({"restricted": namespaces})})


PRIVILEGED: dict[str, Any] = {
    "hostPID": True,
    "model": {"securityContext": {"privileged": True}},
    "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
}


async def ready_condition(namespace: str, **fields: Any) -> dict[str, Any]:
    """What is said of a service in the namespace ``models``, where those of ``namespace`` are restricted."""
    cluster = cluster_with(a_service_body(**fields), the_shipped_runtime_body(), config=a_policy("bank", namespace))
    await cluster.reconcile()
    condition = cluster.condition("Ready")
    return {**condition, "children": bool(cluster.api.get("Deployment", "models", "torchserve-predictor"))}


@pytest.mark.parametrize("namespace", ["models", "mod*", "*"])
async def test_a_refused_pod_is_not_created_and_its_fields_are_named(namespace: str) -> None:
    model, predictor = PRIVILEGED["model"], {name: PRIVILEGED[name] for name in ("hostPID", "volumes")}
    condition = await ready_condition(namespace, model=model, predictor=predictor)

    assert (condition["status"], condition["reason"], condition["children"]) == ("False", "InvalidPredictorSpec", False)
    assert condition["message"] == (
        "Deployment torchserve-predictor: hostPID is true; volume host is a hostPath; "
        "container kserve-container: securityContext.privileged is true; "
        "container kserve-container: securityContext.allowPrivilegeEscalation is not set; "
        "podSecurity of inferenceservice-config restricts the pods of namespace models; change the fields"
    )


async def test_elsewhere_it_is_created() -> None:
    condition = await ready_condition("others", predictor={"hostPID": True})

    assert condition["children"]


async def test_a_pod_with_nothing_to_refuse_is_created() -> None:
    assert (await ready_condition("*"))["children"]


def test_many_fields_are_not_all_named() -> None:
    volumes = [{"name": f"v{number}", "hostPath": {"path": "/"}} for number in range(NAMED + 5)]
    children = the_children(a_service(predictor={"volumes": volumes}))

    with pytest.raises(InvalidSpec, match=f"volume v{NAMED - 1} is a hostPath; and others; podSecurity of "):
        check_pod_security(children.values(), a_policy("models"), "models")


ODD: list[dict[str, Any]] = [
    {"capabilities": []},
    {"capabilities": {"drop": "ALL", "add": [{}]}},
    {"seccompProfile": ["x"]},
    {"seLinuxOptions": {"type": {}}, "windowsOptions": 5},
    {"runAsNonRoot": "yes", "sysctls": {"a": "b"}},
]


@pytest.mark.parametrize("context", ODD)
def test_what_is_no_security_context_is_refused(context: dict[str, Any]) -> None:
    pod = {"containers": [{"name": "a", "securityContext": context, "ports": [5], "livenessProbe": []}]}

    assert list(refused_fields({"metadata": {}, "spec": {**pod, "securityContext": context}}))
