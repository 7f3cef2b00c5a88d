"""What the plan says of a service: KServe's children beside what is rendered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from isvc.migrate.checks import ServiceChange, canary_refused, check_children, mode_refused
from isvc.migrate.plan import Level, PlanLine, blocking, ok, warning
from isvc_operator.api.inference_service import InferenceService
from tests.support.builders import Manifest, a_resolved, a_service, a_service_body, the_children

NAME = "torchserve-predictor"
DEPLOYMENT, HPA = f"Deployment {NAME}", f"HorizontalPodAutoscaler {NAME}"
SERVICE = a_service(annotations={"serving.kserve.io/autoscalerClass": "none"}, predictor={"minReplicas": 1})
AFTER = the_children(SERVICE)
NEW_IMAGE = AFTER["Deployment"]["spec"]["template"]["spec"]["containers"][0]["image"]
HOSTS = "hosts kept: " + ", ".join(sorted({rule["host"] for rule in AFTER["Ingress"]["spec"]["rules"]}))


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: copied(item) for name, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def kserves() -> dict[str, Any]:
    """KServe's children of the service: the same, by default."""
    children: dict[str, Any] = copied(AFTER)
    children["Deployment"]["spec"]["replicas"] = 1
    return children


def judged(before: dict[str, Manifest], after: dict[str, Manifest] = AFTER, **fields: Any) -> list[PlanLine]:
    body = a_service_body(status={"clusterServingRuntimeName": "kserve-torchserve"})
    change = ServiceChange(body, list(before.values()), list(after.values()), a_resolved(SERVICE), **fields)
    return list(check_children(change))


UNCHANGED = [
    ok("runtime: kserve-torchserve"),
    ok(f"Deployment {NAME}: its size stays 1"),
    ok(f"Deployment {NAME}: image of kserve-container: {NEW_IMAGE}"),
    ok(HOSTS),
]


def test_a_service_that_stays_the_same_needs_no_attention() -> None:
    assert judged(kserves()) == UNCHANGED


def larger(children: dict[str, Any]) -> None:
    children["Deployment"]["spec"]["replicas"] = 4


def of_another_image(children: dict[str, Any]) -> None:
    children["Deployment"]["spec"]["template"]["spec"]["containers"][0]["image"] = "pytorch/torchserve-kfs:0.9.0"


def with_another_host(children: dict[str, Any]) -> None:
    children["Ingress"]["spec"]["rules"].append({"host": "models.example.com"})


def of_another_class(children: dict[str, Any]) -> None:
    children["Ingress"]["spec"]["ingressClassName"] = "istio"


def at_another_port(children: dict[str, Any]) -> None:
    children["Service"]["spec"]["ports"][0]["targetPort"] = 9000


def behind_an_agent(children: dict[str, Any]) -> None:
    children["Service"]["spec"]["ports"][0]["targetPort"] = 9081


def scaled(children: dict[str, Any]) -> None:
    children["HPA"] = an_autoscaler(1, 4)


def of_fixed_size(children: dict[str, Any]) -> None:
    children["HPA"] = an_autoscaler(1, 1)


def routed(children: dict[str, Any]) -> None:
    spec = {"hosts": ["torchserve-predictor.default.svc.cluster.local"]}
    children["VirtualService"] = {"kind": "VirtualService", "metadata": {"name": "torchserve"}, "spec": spec}


def with_a_route(children: dict[str, Any]) -> None:
    children["HTTPRoute"] = {"kind": "HTTPRoute", "metadata": {"name": "torchserve"}, "spec": {}}


def an_autoscaler(smallest: int, largest: int) -> Manifest:
    spec = {"minReplicas": smallest, "maxReplicas": largest}
    return {"kind": "HorizontalPodAutoscaler", "metadata": {"name": NAME}, "spec": spec}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (larger, blocking(f"{DEPLOYMENT}: its size becomes 1, from 4; set minReplicas to 4 until the load is lower")),
        (
            of_another_image,
            warning(f"{DEPLOYMENT}: image of kserve-container: pytorch/torchserve-kfs:0.9.0 → {NEW_IMAGE}"),
        ),
        (
            with_another_host,
            blocking(
                "host models.example.com is not served any more; let domainTemplate or additionalDomainTemplates "
                "give it"
            ),
        ),
        (of_another_class, blocking("ingressClassName istio → none; set it in the operator's inferenceservice-config")),
        (
            at_another_port,
            blocking(
                f"Service {NAME}: target port 9000 → 8080: pods of KServe do not listen there; give the runtime's "
                "container port 9000"
            ),
        ),
        (
            behind_an_agent,
            warning(
                f"Service {NAME}: target port 9081 → 8080: requests go to the server itself, without KServe's agent"
            ),
        ),
        (
            scaled,
            warning(f"{HPA} is deleted: this service is not scaled automatically from then on"),
        ),
        (of_fixed_size, ok(f"HorizontalPodAutoscaler {NAME} is deleted: it keeps the size at 1, as it is")),
        (
            with_a_route,
            blocking("HTTPRoute torchserve is deleted; set enableGatewayApi in the operator's inferenceservice-config"),
        ),
        (
            routed,
            warning("VirtualService torchserve stays as KServe has made it; delete it when nothing uses it any more"),
        ),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_difference_is_named_with_what_it_means(change: Callable[[dict[str, Any]], None], found: PlanLine) -> None:
    before = kserves()
    change(before)

    assert [item for item in judged(before) if item not in UNCHANGED] == [found]


WHERE = f"Deployment {NAME}, container kserve-container"
FIX = "set securityContext.runAsUser of kserve-container to the user of its image's files"
NON_ROOT = warning(
    f"{WHERE}: must not run as root from now on; if its image does, it does not start: {FIX}",
)
AS_ROOT = blocking(f"{WHERE}: runs as root, which its namespace refuses (Pod Security restricted); {FIX}")
READ_ONLY = warning(f"{WHERE}: its root file system becomes read-only; mount an emptyDir where it writes")


@pytest.mark.parametrize(
    ("security", "restricted", "found"),
    [
        ({"runAsNonRoot": True}, False, [NON_ROOT]),
        ({"runAsNonRoot": True, "runAsUser": 1000}, False, []),
        ({"runAsNonRoot": True, "readOnlyRootFilesystem": True, "runAsUser": 1000}, True, [READ_ONLY]),
        ({"runAsUser": 0}, False, []),
        ({"runAsUser": 0}, True, [AS_ROOT]),
        ({}, True, [AS_ROOT]),
    ],
    ids=["non-root", "a user", "read-only", "root", "root, restricted", "nothing, restricted"],
)
def test_what_the_security_defaults_refuse_is_named_with_what_to_do(
    security: dict[str, Any], restricted: bool, found: list[PlanLine]
) -> None:
    after = copied(AFTER)
    after["Deployment"]["spec"]["template"]["spec"]["containers"][0]["securityContext"] = security

    assert [item for item in judged(kserves(), after, restricted=restricted) if item not in UNCHANGED] == found


@pytest.mark.parametrize(
    ("image", "source", "level"),
    [
        ("kserve/storage-initializer:v0.20.0", "pvc://leeway", Level.BLOCKING),
        ("kserve/storage-initializer:v0.20.0", "s3://models/one", Level.WARNING),
        ("mine/storage-initializer:1", "pvc://leeway", None),
    ],
    ids=["of KServe, from a claim", "of KServe, from a bucket", "of others"],
)
def test_an_initializer_of_kserve_that_was_kept_is_named(image: str, source: str, level: Level | None) -> None:
    after = copied(AFTER)
    (container,) = after["Deployment"]["spec"]["template"]["spec"]["initContainers"]
    container |= {"image": image, "args": [source, "/mnt/models"], "securityContext": {"readOnlyRootFilesystem": True}}

    found = [item.level for item in judged(kserves(), after) if item not in UNCHANGED]

    assert found == ([level] if level else [])


@pytest.mark.parametrize(
    ("percent", "line"),
    [
        (80, ok(f"{HPA}: adopted as it is")),
        (
            50,
            warning(f"{HPA}: its targets become cpu 80 %, from cpu 50 %; set scaleMetric and scaleTarget to keep them"),
        ),
    ],
)
def test_a_target_that_the_spec_does_not_have_is_named(percent: int, line: PlanLine) -> None:
    after = the_children(a_service(predictor={"minReplicas": 1, "maxReplicas": 4}))
    before = copied(after)
    before["Deployment"]["spec"]["replicas"] = 1
    before["HorizontalPodAutoscaler"]["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] = percent

    assert [item for item in judged(before, after) if item not in UNCHANGED] == [line]


def test_parts_without_effect_are_warnings() -> None:
    assert judged(kserves(), ignored=["spec.predictor.batcher"]) == [
        *UNCHANGED,
        warning("no effect: spec.predictor.batcher"),
    ]


@pytest.mark.parametrize(
    ("status", "annotations", "refused"),
    [
        ({"deploymentMode": "Standard"}, {}, False),
        ({}, {}, False),
        ({"deploymentMode": "Serverless"}, {}, True),
        ({}, {"serving.kserve.io/deploymentMode": "ModelMesh"}, True),
    ],
    ids=["Standard", "no mode", "Serverless in the status", "ModelMesh in an annotation"],
)
def test_a_service_of_another_mode_cannot_be_taken_over(
    status: dict[str, str], annotations: dict[str, str], refused: bool
) -> None:
    found = mode_refused(a_service_body(status=status, annotations=annotations))

    assert (found is not None and found.level is Level.BLOCKING) is refused


OF_KSERVE = {"kind": "Deployment", "metadata": {"name": NAME}}
CANARY = {"trafficPercent": 10, "predictor": {"name": "next"}}


@pytest.mark.parametrize(
    ("service", "requested", "patch"),
    [
        (
            a_service(predictor={"canaryTrafficPercent": 20}),
            "spec.predictor.canaryTrafficPercent: 20",
            '{"spec": {"canary": null, "predictor": {"canaryTrafficPercent": null}}}',
        ),
        (
            a_service(spec={"canary": [CANARY], "transformer": {"canaryTrafficPercent": 0, "containers": [{}]}}),
            "spec.canary and spec.transformer.canaryTrafficPercent: 0",
            '{"spec": {"canary": null, "predictor": {"canaryTrafficPercent": null}, '
            '"transformer": {"canaryTrafficPercent": null}}}',
        ),
    ],
    ids=["a share of the traffic", "a canary, and a share for the transformer"],
)
def test_a_canary_blocks_until_it_is_finished(service: InferenceService, requested: str, patch: str) -> None:
    assert canary_refused(service, [OF_KSERVE]) == blocking(
        f"{requested} requests a canary: KServe's pods would be kept, and get no model any more when they start anew, "
        "as KServe's webhooks are removed; finish the change or undo it, then run: kubectl patch inferenceservice "
        f"torchserve -n models --type merge -p '{patch}'"
    )


@pytest.mark.parametrize(
    ("percent", "before"),
    [
        (100, [OF_KSERVE]),
        (20, []),
        (20, [{**OF_KSERVE, "metadata": {"name": NAME, "annotations": {"isvc-operator.io/rendered": "1"}}}]),
    ],
    ids=["all of the traffic", "no pods of KServe", "changed over already"],
)
def test_without_pods_of_kserve_to_keep_a_canary_does_not_block(percent: int, before: list[Manifest]) -> None:
    assert canary_refused(a_service(predictor={"canaryTrafficPercent": percent}), before) is None
