"""Services that fail, or serve with something wrong, each as the operator leaves it, and words of the cause."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from isvc.view.source import Related
from isvc_operator.errors import OperatorError, Problem
from isvc_operator.kube.errors import KubeError
from isvc_operator.observe.conditions import Cause, Contested
from isvc_operator.observe.routes import first_problem
from isvc_operator.resolve.front import ServerCertificate, ServingTls, read_tls
from isvc_operator.resolve.storage.plan import ObjectReference, read_key
from tests.support.builders import (
    EARLIER,
    a_child,
    a_container,
    a_deployment,
    a_pod,
    a_ready_pod,
    a_resolved,
    a_runtime,
    a_service,
    an_initializer,
    ended,
)
from tests.support.failing_pods import FAILING_PODS, PODS_OF_EVENTS, unschedulable
from tests.support.related_objects import a_problem_of, a_related, an_event

GATEWAY = {"namespace": "gateways", "name": "kserve"}
ROUTE = a_child("HTTPRoute", spec={"parentRefs": [GATEWAY]})
NONE_AVAILABLE = a_deployment(available=0)
NO_ACCOUNT = (
    'pods "torchserve-predictor-1" is forbidden: error looking up service account models/absent: serviceaccount '
    '"absent" not found'
)
QUOTA = 'pods "torchserve-predictor-1" is forbidden: exceeded quota: small'
CERTIFICATE = ObjectReference("Secret", "certs")
IN_USE = "PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
ATTACHED = 'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) other'
ELSEWHERE = "1 node(s) didn't match PersistentVolume's node affinity"
AUTH = "nginx.ingress.kubernetes.io/auth-url"
Row = tuple[str, Related, str]  # the reason, the service, words of the cause


def refused(attempt: Callable[[], object]) -> Related:
    """The story's service with what is raised as its problem."""
    try:
        attempt()
    except OperatorError as error:
        problem = Problem.of(error)
        return a_problem_of(problem.reason, problem.message)
    raise AssertionError("nothing is raised")


def routed(child: dict[str, Any], *observed: dict[str, Any], missing: Sequence[str] = ()) -> Related:
    """The story's service, whose pods serve, with this Ingress or route."""
    problem = first_problem([child], observed, missing=missing)
    assert problem
    return a_related(route_problem=problem)


def reported(type_: str, reason: str | None, message: str, generation: int = 1) -> dict[str, Any]:
    """The route with what its gateway's controller reports."""
    condition = {"type": type_, "status": "False", "observedGeneration": generation, "message": message}
    parent = {"parentRef": GATEWAY, "conditions": [condition if reason is None else {**condition, "reason": reason}]}
    metadata = {**ROUTE["metadata"], "generation": 1}
    return {**ROUTE, "metadata": metadata, "status": {"parents": [parent]}}


def certified(ends: datetime, *missing: str) -> Related:
    """The story's service, which serves TLS with a certificate."""
    certificate = ServerCertificate(("torchserve",), datetime(2025, 1, 1, tzinfo=UTC), ends)
    return a_related(resolved=replace(a_resolved(), tls=ServingTls("certs", certificate, missing)))


def scaled_by(kind: str, condition: str, reason: str, message: str) -> Related:
    """The story's service, which has been ready for an hour, with an autoscaler that says this."""
    said = {"type": condition, "status": "False", "reason": reason, "message": message}
    ready = {"type": "PredictorReady", "status": "True", "lastTransitionTime": EARLIER}
    autoscaler = a_child(kind, status={"conditions": [said]})
    return a_related(autoscaler=autoscaler, service=a_service(status={"conditions": [ready]}))


def contested(cause: Cause) -> Related:
    return a_related(contested=[Contested("Deployment", "torchserve-predictor", cause, ("spec.paused",), ("argocd",))])


def a_refusal(message: str) -> Related:
    """A service whose Deployment cannot create a pod."""
    refused = {"type": "ReplicaFailure", "status": "True", "message": message}
    deployment = a_deployment(updated=0, total=0, available=0, conditions=[refused])
    return replace(a_related(a_pod(), deployment=deployment), pods=())


FAILING_SERVICES: dict[str, Row] = {
    **{name: (failure.reason, a_related(pod), failure.cause) for name, (pod, failure) in FAILING_PODS.items()},
    **{
        name: (failure.reason, a_related(pod, events=events), failure.cause)
        for name, (pod, events, failure) in PODS_OF_EVENTS.items()
    },
    # The spec
    "a format that no runtime serves": (
        "NoSupportingRuntime",
        refused(lambda: a_resolved(a_service(model={"modelFormat": {"name": "pytroch"}}))),
        "no runtime serves model format 'pytroch'",
    ),
    "a runtime that does not exist": (
        "RuntimeNotRecognized",
        refused(lambda: a_resolved(a_service(model={"runtime": "torchserv"}))),
        "runtime 'torchserv' of spec.predictor.model.runtime does not exist (did you mean kserve-torchserve?); "
        "available: kserve-torchserve",
    ),
    "a runtime that is disabled": (
        "RuntimeDisabled",
        refused(lambda: a_resolved(a_service(model={"runtime": "mine"}), a_runtime("mine", disabled=True))),
        "runtime 'mine' is disabled; enable it or name another one",
    ),
    "a model in two places": (
        "InvalidPredictorSpec",
        refused(lambda: a_resolved(a_service(predictor={"storageUris": [{"uri": "s3://b/1"}]}))),
        "storageUri and storageUris are both given; move storageUri into storageUris",
    ),
    "a secret that is not text": (
        "InvalidCredentials",
        refused(lambda: read_key({"metadata": {"name": "s3"}, "data": {"id": "%"}}, "id")),
        "key id of secret s3 is not text",
    ),
    "a certificate that does not exist": (
        "InvalidCertificate",
        refused(lambda: read_tls(CERTIFICATE, {CERTIFICATE: None}, (), calls=False)),
        "secret certs, which the pods are to serve TLS with, does not exist",
    ),
    "a child that the API server refuses": (
        "ReconcileFailed",
        a_related(problem=Problem.of(KubeError(403, "Deployment torchserve-predictor: denied by policy no-latest"))),
        "denied by policy no-latest",
    ),
    "a stop": ("Stopped", a_related(stopped=True), "the service is stopped by its annotation"),
    "a Deployment that is paused": (
        "DeploymentPaused",
        a_related(a_ready_pod(), deployment=a_deployment(updated=0, available=1, paused=True)),
        "kubectl rollout resume deployment torchserve-predictor",
    ),
    "an autoscaler without metrics": (
        "ScalingInactive",
        scaled_by("HorizontalPodAutoscaler", "ScalingActive", "FailedGetResourceMetric", "no metrics API"),
        "does not set the number of pods: FailedGetResourceMetric: no metrics API; kubectl top pods tells",
    ),
    "a ScaledObject that KEDA refuses": (
        "ScaledObjectNotReady",
        scaled_by("ScaledObject", "Ready", "ScaledObjectCheckFailed", "no scaler of type prometheu"),
        "ScaledObjectCheckFailed: no scaler of type prometheu",
    ),
    # The pods
    "a claim that another node has": (
        "ClaimInUse",
        a_related(
            a_pod(),
            deployment=NONE_AVAILABLE,
            events=[an_event("FailedAttachVolume", ATTACHED, type_="Warning")],
        ),
        ATTACHED,
    ),
    "a claim that another pod has": (
        "ClaimInUse",
        a_related(a_pod(node=None, conditions=[unschedulable(f"1 node(s) unavailable due to {IN_USE}")])),
        IN_USE,
    ),
    "a claim whose volume is elsewhere": (
        "ClaimElsewhere",
        a_related(a_pod(node=None, conditions=[unschedulable(ELSEWHERE)])),
        ELSEWHERE,
    ),
    "a volume of a secret that does not exist": (
        "VolumeNotMounted",
        a_related(
            a_pod(),
            deployment=NONE_AVAILABLE,
            events=[an_event("FailedMount", 'MountVolume.SetUp failed: secret "google" not found', type_="Warning")],
        ),
        'MountVolume.SetUp failed: secret "google" not found',
    ),
    "a quota": ("PodsRefused", a_refusal(QUOTA), QUOTA),
    "a service account that does not exist": ("ServiceAccountNotFound", a_refusal(NO_ACCOUNT), NO_ACCOUNT),
    "a pod that is replaced after it served": (
        "MinimumReplicasUnavailable",
        a_related(
            a_pod(phase="Running", containers=[a_container()]), service=a_service(status=a_related().service["status"])
        ),
        "fewer pods serve requests than before",
    ),
    "a start that goes on for ever": (
        "ProgressDeadlineExceeded",
        a_related(
            a_pod(phase="Running", initializer=an_initializer(), containers=[a_container()]),
            deployment=a_deployment(available=0, progressing="ProgressDeadlineExceeded"),
        ),
        "nothing has changed within the Deployment's progressDeadlineSeconds",
    ),
    "a pod that a node does not admit": (
        "UnexpectedAdmissionError",
        a_related(a_pod(phase="Failed", reason="UnexpectedAdmissionError", message="no device plugin")),
        "no device plugin",
    ),
    # The way to the pods
    "no Ingress yet": ("IngressNotCreated", routed(a_child("Ingress")), "The Ingress does not exist yet"),
    "no route yet": ("RouteNotCreated", routed(ROUTE), "HTTPRoute torchserve-predictor does not exist yet"),
    "no Gateway API": (
        "GatewayApiNotInstalled",
        routed(ROUTE, missing=["HTTPRoute"]),
        "the cluster has no kind HTTPRoute",
    ),
    "a Gateway that reports nothing": (
        "ParentStatusNotAvailable",
        routed(ROUTE, ROUTE),
        "Gateway gateways/kserve has reported no status",
    ),
    "a Gateway that has not noticed the change": (
        "ParentStatusOutdated",
        routed(ROUTE, reported("Accepted", "Pending", "x", generation=0)),
        "Gateway gateways/kserve has not reported on the latest HTTPRoute",
    ),
    "a Gateway that refuses a route": (
        "NotAllowedByListeners",
        routed(ROUTE, reported("Accepted", "NotAllowedByListeners", "No listeners allow this route")),
        "let the administrator allow routes of this namespace",
    ),
    "a Gateway that refuses a route without a reason": (
        "NotAccepted",
        routed(ROUTE, reported("Accepted", None, "over capacity")),
        "over capacity",
    ),
    "a Gateway with a reason of its own": (
        "OfTheVendor",
        routed(ROUTE, reported("ResolvedRefs", "OfTheVendor", "out of licences")),
        "out of licences",
    ),
    "an annotation that guards": (
        "AnnotationNotAllowed",
        a_related(service=a_service(annotations={AUTH: "http://auth"})),
        f"it would lack annotations that restrict access: {AUTH}",
    ),
    "a host of an older service": (
        "HostTaken",
        a_related(resolved=a_resolved(taken={"torchserve.models.example.com": "others/torchserve"})),
        "torchserve.models.example.com (InferenceService others/torchserve)",
    ),
    # What a service that serves lacks
    "an unknown field": (
        "FieldsIgnored",
        a_related(ignored=["spec.predictor.model.storageURl"]),
        "Ignored: spec.predictor.model.storageURl",
    ),
    "a canary": (
        "CanaryNotSupported",
        a_related(paused={"predictor": "canaryTrafficPercent"}),
        "canaryTrafficPercent requests a canary, which is not supported",
    ),
    "another client": (
        "ChangedByOthers",
        contested(Cause.CHANGED),
        "Deployment torchserve-predictor: argocd changes spec.paused",
    ),
    "a webhook": (
        "FieldsNotKept",
        contested(Cause.NOT_KEPT),
        "Deployment torchserve-predictor: the API server does not keep spec.paused",
    ),
    "a certificate that has expired": (
        "CertificateExpired",
        certified(datetime(2025, 12, 31, tzinfo=UTC)),
        "clients refuse the certificate of secret certs since 2025-12-31T00:00:00Z",
    ),
    "a certificate that expires": (
        "CertificateExpires",
        certified(datetime(2026, 1, 2, tzinfo=UTC)),
        "clients will refuse the certificate of secret certs from 2026-01-02T00:00:00Z on",
    ),
    "a certificate for other names": (
        "HostsMissing",
        certified(datetime(2027, 1, 1, tzinfo=UTC), "torchserve-predictor.models"),
        "the certificate of secret certs is not for torchserve-predictor.models",
    ),
    "an archive that is not there": (
        "StorageWarning",
        a_related(
            a_ready_pod(initializer=an_initializer(ended(0, "model-store lacks b.mar, which load_models names"))),
            deployment=a_deployment(),
        ),
        "model-store lacks b.mar",
    ),
}
