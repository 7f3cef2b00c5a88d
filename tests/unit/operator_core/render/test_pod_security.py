"""Rendered pods pass the `restricted` Pod Security Standard, as checked in a namespace that enforces it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isvc.run.documents import parse_documents
from isvc.run.files import read_runtimes
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.config import OperatorConfig
from isvc_operator.render.deployment import build_deployment
from tests.support.builders import a_resolved, a_service, the_children

ROOT = Path(__file__).parents[4]

Pod = dict[str, Any]
Container = dict[str, Any]

# https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
ALLOWED_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


def containers_of(pod: Pod) -> list[Container]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def effective(pod: Pod, container: Container, setting: str) -> Any:
    """A setting of the container, else of its pod."""
    own, pods = container.get("securityContext", {}), pod.get("securityContext", {})
    return own.get(setting, pods.get(setting))


def no_host_namespaces(pod: Pod) -> bool:
    return not any(pod.get(name) for name in ("hostNetwork", "hostPID", "hostIPC"))


def no_host_ports(pod: Pod) -> bool:
    return not any(port.get("hostPort") for item in containers_of(pod) for port in item.get("ports", []))


def only_allowed_volumes(pod: Pod) -> bool:
    return all(set(volume) - {"name"} <= ALLOWED_VOLUMES for volume in pod.get("volumes", []))


def not_privileged(pod: Pod) -> bool:
    return not any(item["securityContext"].get("privileged") for item in containers_of(pod))


def no_escalation(pod: Pod) -> bool:
    return all(item["securityContext"].get("allowPrivilegeEscalation") is False for item in containers_of(pod))


def not_root(pod: Pod) -> bool:
    return all(
        effective(pod, item, "runAsNonRoot") is True and effective(pod, item, "runAsUser") != 0
        for item in containers_of(pod)
    )


def seccomp(pod: Pod) -> bool:
    profiles = [effective(pod, item, "seccompProfile") or {} for item in containers_of(pod)]
    return all(profile.get("type") in ("RuntimeDefault", "Localhost") for profile in profiles)


def no_capabilities(pod: Pod) -> bool:
    capabilities = [item["securityContext"].get("capabilities", {}) for item in containers_of(pod)]
    return all(item.get("drop") == ["ALL"] and not item.get("add") for item in capabilities)


RULES = (
    no_host_namespaces,
    no_host_ports,
    only_allowed_volumes,
    not_privileged,
    no_escalation,
    not_root,
    seccomp,
    no_capabilities,
)


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
@pytest.mark.parametrize("rule", RULES)
def test_the_pod_is_restricted(rule: Callable[[Pod], bool], uri: str, runtime: ServingRuntime) -> None:
    assert rule(pod_of(runtime, storageUri=uri))


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
@pytest.mark.parametrize("rule", RULES)
def test_so_is_the_pod_of_own_containers_that_say_nothing(rule: Callable[[Pod], bool], kind: str) -> None:
    resolved = a_resolved(a_service(**OF_OWN_CONTAINERS[kind]))
    (component,) = [item for item in resolved.components if item.kind == kind]
    pod = build_deployment(resolved, component, OperatorConfig())["spec"]["template"]["spec"]

    assert rule(pod)
    assert pod["automountServiceAccountToken"] is False
