"""What each finding means, and what to do about it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from isvc.crds import RESOURCES, build_crd
from isvc.doctor import checks
from isvc.doctor.checks import Check, Verdict
from isvc_operator.config import IngressConfig

CRD = RESOURCES[0]


def said(check: Check) -> tuple[str, str]:
    return check.verdict.value, check.message


@pytest.mark.parametrize(
    ("version", "verdict"),
    [
        ({"major": "1", "minor": "30", "gitVersion": "v1.30.2"}, Verdict.OK),
        ({"major": "1", "minor": "31+", "gitVersion": "v1.31.2-eks"}, Verdict.OK),
        ({"major": "1", "minor": "29", "gitVersion": "v1.29.0"}, Verdict.PROBLEM),
        ({}, Verdict.PROBLEM),
    ],
    ids=["the oldest", "a provider's", "too old", "unknown"],
)
def test_a_cluster_has_a_version(version: dict[str, str], verdict: Verdict) -> None:
    assert checks.check_version(version, "https://a").verdict is verdict


def crd(**changes: Any) -> dict[str, Any]:
    made = copy.deepcopy(build_crd(CRD))
    made["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
    made["spec"]["versions"][0].update(changes)
    return made


def test_a_crd_is_that_of_this_version_or_another() -> None:
    other = crd()
    del other["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    waiting = {"conditions": [{"type": "Established", "status": "False", "message": "names conflict"}]}

    assert [
        said(checks.check_crd(CRD, found, "0.2.0"))
        for found in (crd(), None, other, crd(served=False), {**crd(), "status": waiting}, {**crd(), "status": {}})
    ] == [
        ("ok", "installed, as in 0.2.0"),
        ("problem", "it is not installed; apply the crds of isvc-operator 0.2.0"),
        (
            "warning",
            "it is not that of isvc 0.2.0; apply the crds of the operator's version, or use the isvc of that one",
        ),
        ("problem", "version v1beta1 is not served; apply the crds of 0.2.0"),
        ("problem", "it is not served: names conflict; remove what conflicts with it"),
        ("problem", "it is not served: the API server has not accepted it; remove what conflicts with it"),
    ]


def deployment(
    replicas: int = 1, namespace: str = "isvc-system", name: str = "isvc-operator", **status: Any
) -> dict[str, Any]:
    template = {"spec": {"containers": [{"image": "r/operator:0.2.0"}]}}
    metadata = {"name": name, "namespace": namespace}
    return {"metadata": metadata, "spec": {"replicas": replicas, "template": template}, "status": status}


def test_the_operator_is_ready_or_not() -> None:
    unavailable = [{"type": "Available", "status": "False", "message": "no pod"}]

    assert [
        said(checks.check_operator(found, version))
        for found, version in (
            ([deployment(readyReplicas=1)], "0.2.0"),
            ([deployment(readyReplicas=1)], "0.3.0"),
            ([], "0.2.0"),
            ([deployment(0)], "0.2.0"),
            ([deployment(conditions=unavailable)], "0.2.0"),
            ([deployment(readyReplicas=1), deployment(namespace="other")], "0.2.0"),
        )
    ] == [
        ("ok", "isvc-system/isvc-operator is ready (1 of 1): r/operator:0.2.0"),
        ("ok", "isvc-system/isvc-operator is ready (1 of 1): r/operator:0.2.0; this isvc is 0.3.0"),
        ("problem", "no Deployment isvc-operator exists; install it (docs/install.md)"),
        ("problem", "isvc-system/isvc-operator has 0 replicas; scale it to 1"),
        (
            "problem",
            "isvc-system/isvc-operator is not ready: no pod; see kubectl -n isvc-system logs deployment/isvc-operator",
        ),
        ("warning", "it runs in 2 namespaces (isvc-system, other); make sure that they watch different ones"),
    ]


def test_kserves_manager_runs_beside_the_operator_or_is_paused_or_stopped() -> None:
    running, elsewhere, stopped = (
        deployment(replicas, namespace, "kserve-controller-manager")
        for replicas, namespace in ((1, "kserve"), (1, "opendatahub"), (0, "kserve"))
    )

    assert [
        said(checks.check_kserve(manager, paused=paused))
        for manager, paused in ((running, False), (elsewhere, False), (running, True), (stopped, False))
    ] == [
        (
            "problem",
            "kserve/kserve-controller-manager runs, and changes the same services as isvc-operator; change over with "
            "isvc migrate (docs/migrate-from-kserve.md)",
        ),
        (
            "problem",
            "opendatahub/kserve-controller-manager runs, and changes the same services as isvc-operator; remove one of "
            "the two, and keep the CRDs (docs/migrate-from-kserve.md)",
        ),
        ("ok", "isvc migrate has paused the controllers of kserve/kserve-controller-manager"),
        ("ok", "kserve/kserve-controller-manager has 0 replicas"),
    ]


def ingress_class(name: str, *, default: bool = False) -> dict[str, Any]:
    annotations = {"ingressclass.kubernetes.io/is-default-class": "true"} if default else {}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"controller": f"{name}.io"}}


def test_an_ingress_class_is_the_configured_or_the_default_one() -> None:
    named, unnamed = IngressConfig(ingress_class_name="a"), IngressConfig()

    assert [
        said(checks.check_ingress_classes(config, classes))
        for config, classes in (
            (unnamed, [ingress_class("a"), ingress_class("b", default=True)]),
            (named, [ingress_class("a")]),
            (named, [ingress_class("b")]),
            (unnamed, [ingress_class("b")]),
            (unnamed, []),
        )
    ] == [
        ("ok", "the default IngressClass is b of b.io"),
        ("ok", "IngressClass a of a.io"),
        ("problem", "ingressClassName is a, and there is only b; change it in inferenceservice-config"),
        (
            "warning",
            "no IngressClass is the default (b); set ingressClassName in inferenceservice-config to one of them",
        ),
        ("problem", "there is no IngressClass; install an ingress controller"),
    ]


def test_a_gateway_has_to_be_programmed() -> None:
    accepted = {"type": "Accepted", "status": "True"}
    programmed = {"type": "Programmed", "status": "True"}

    def verdict(*conditions: dict[str, str]) -> Verdict:
        gateway = {"status": {"conditions": list(conditions)}}
        return checks.check_gateway(IngressConfig(), installed=True, gateway=gateway).verdict

    assert verdict(accepted, programmed) is Verdict.OK
    assert verdict(accepted) is Verdict.PROBLEM
    assert checks.check_gateway(IngressConfig(), installed=True, gateway=None).message == (
        "there is no Gateway kserve/kserve-ingress-gateway; create it, or change kserveIngressGateway in "
        "inferenceservice-config"
    )


def test_a_disabled_runtime_is_none() -> None:
    disabled = {"metadata": {"name": "a"}, "spec": {"disabled": True}}

    assert checks.check_runtimes([disabled]).verdict is Verdict.PROBLEM
    assert said(checks.check_runtimes([disabled, {"metadata": {"name": "b"}, "spec": {}}])) == ("ok", "b")


def test_the_worst_verdict_counts() -> None:
    found = [Check("a", verdict, "") for verdict in (Verdict.OK, Verdict.WARNING, Verdict.UNKNOWN)]

    assert checks.worst(found) is Verdict.WARNING
    assert checks.worst([]) is Verdict.OK


def test_a_configuration_that_does_not_exist_is_said() -> None:
    (check,) = checks.check_settings([], "isvc-system", exists=False)

    assert said(check) == ("ok", "there is no inferenceservice-config in namespace isvc-system; the defaults hold")


def test_services_that_have_failed_are_counted_and_named() -> None:
    assert [said(checks.check_health(failed, 9, "team")) for failed in ([], ["a"], ["a", "b"])] == [
        ("ok", "9 in namespace team; the spec of each can be served"),
        ("warning", "1 of 9 in namespace team has failed: a; isvc status -n team says why"),
        ("warning", "2 of 9 in namespace team have failed: a, b; isvc status -n team says why"),
    ]
