"""Rows about a service: its spec, what it refers to, its pods as the cluster describes them, and its conditions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.config import IngressConfig, OperatorConfig, parse_config
from isvc_operator.errors import ConfigError, InvalidCertificate, InvalidSpec, OperatorError
from isvc_operator.kube.errors import KubeError, RequestRefused
from isvc_operator.kube.ignored_settings import IgnoredSettings
from isvc_operator.kube.informer.cache import Cache
from isvc_operator.kube.requests import path_of
from isvc_operator.observe.conditions import certificate_problem
from isvc_operator.render.children import render
from isvc_operator.resolve.runtime import Runtimes, choose_runtime
from tests.contract.troubles.rows import Elsewhere, Observed, Provoked, Tried
from tests.support.builders import EARLIER, NAMESPACE, NOW, a_format, a_model, a_runtime, a_runtime_body, a_service_body
from tests.support.credentials import S3_KEYS, a_secret, an_account
from tests.support.fakes import FakeKubeApi
from tests.support.outcomes import Manifest, a_config_map, outcome_of
from tests.support.reconcile_fixture import Cluster, cluster_with
from tests.unit.operator_core.kube.test_ignored_settings import a_container
from tests.unit.operator_core.resolve import test_tls as tls_of

Try = Callable[[Path], str]
INVALID = "InvalidPredictorSpec"  # the reason of what is refused before it is resolved
AUTH = "nginx.ingress.kubernetes.io/auth-url"
ALLOWED = OperatorConfig(ingress=IngressConfig(allowed_service_annotations=(AUTH,)))
ONE_HOST = OperatorConfig(
    ingress=IngressConfig(domain_template="{{ .Labels.host }}.example.com", additional_domain_templates=())
)
OF_SERVICES = (f"*.{NAMESPACE}", f"*.{NAMESPACE}.svc", f"*.{NAMESPACE}.svc.cluster.local")
DEPLOYMENT = ("POST", path_of("Deployment", NAMESPACE, "torchserve-predictor"))


def spec(*others: Manifest, runtimes: Sequence[dict[str, Any]] = ({},), **service: Any) -> Try:
    """Resolve a service; the reason and the message of a refusal, or what is ignored."""

    def run(_: Path) -> str:
        outcome = outcome_of([a_service_body(**service), *(a_runtime_body(**one) for one in runtimes), *others])
        if outcome.refused:
            return f"{outcome.reason or INVALID} {outcome.refused}"
        return "; ".join(outcome.ignored)

    return run


def settings(**sections: Any) -> Try:
    """Read a ConfigMap; what of it has no effect."""

    def run(place: Path) -> str:
        said = spec(a_config_map(sections))(place)
        return f"SettingsIgnored {said}" if said else ""

    return run


def configured(**data: str) -> Try:
    """Read a ConfigMap; why it cannot be used."""

    def run(_: Path) -> str:
        try:
            parse_config(data)
        except ConfigError as error:
            return f"{error.reason} {error}"
        return ""

    return run


def reconciled(change: Callable[[Cluster], object], config: OperatorConfig | None = None, **fields: Any) -> Try:
    """Reconcile a service after a change to the cluster; what a condition that is False says."""

    async def run() -> str:
        cluster = cluster_with(a_service_body(**fields), a_runtime_body(), config=config)
        change(cluster)
        with contextlib.suppress(KubeError, OperatorError):
            await cluster.reconcile()
        told = [item for item in cluster.service["status"]["conditions"] if item["status"] == "False"]
        told.sort(key=lambda item: item["type"] != "Ready")
        return next((f"{item['reason']} {item['message']}" for item in told if item.get("message")), "")

    return lambda _: asyncio.run(run())


def chosen(**runtimes: Any) -> Try:
    """Choose the runtime `mine`, which the service names."""

    def run(_: Path) -> str:
        try:
            choose_runtime(a_model(runtime="mine"), Runtimes(**runtimes))
        except InvalidSpec as error:
            return f"{error.reason} {error}"
        return ""

    return run


def theirs(cluster: Cluster) -> None:
    """An object of somebody else, of a child's name."""
    name = {"name": "torchserve-predictor", "namespace": NAMESPACE}
    cluster.api.put({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": name, "spec": {"replicas": 1}})


def theirs_deleted(cluster: Cluster) -> None:
    theirs(cluster)
    cluster.api.remove("Deployment", NAMESPACE, "torchserve-predictor")


def of_another(cluster: Cluster) -> None:
    """A child of another service, of a child's name."""
    owner = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "name": "other", "uid": "other"}
    cluster.api.put(a_service_body("other", uid="other"))
    theirs(cluster)
    child = cluster.child("Deployment")
    owned = {"labels": {LABEL_SERVICE: "other"}, "ownerReferences": [{**owner, "controller": True}]}
    cluster.api.put({**child, "metadata": {**child["metadata"], **owned}})


def with_an_older(cluster: Cluster) -> None:
    """Another service, which was created before."""
    cluster.api.put({**cluster.service, "metadata": {**cluster.service["metadata"], "creationTimestamp": NOW}})
    older = a_service_body("older", namespace="other", uid="older", labels={"host": "bank"})
    older["metadata"]["creationTimestamp"] = EARLIER
    cluster.api.put(older)


def with_a_bug(bug: Exception | None) -> Try:
    """Reconcile a service with an operator that may fail."""

    def run(place: Path) -> str:
        with patch("isvc_operator.decide.render", side_effect=bug, wraps=render):
            return reconciled(unchanged)(place)

    return run


def certified(hosts: Sequence[str] = OF_SERVICES, *, exists: bool = True, after: float = 0.0) -> Try:
    """Serve TLS with a certificate for these hosts after a part of its lifetime."""

    def run(place: Path) -> str:
        try:
            tls = tls_of.resolved(tls_of.READING, tls_of.a_secret(place, *hosts) if exists else None).tls
        except InvalidCertificate as error:
            return f"{error.reason} {error}"
        assert tls
        assert tls.certificate
        now = tls.certificate.begins + (tls.certificate.ends - tls.certificate.begins) * after
        found = certificate_problem(tls, now.strftime("%Y-%m-%dT%H:%M:%SZ"))
        return "; ".join(f"{item.reason} {item.message}" for item in found)

    return run


def stored(**spec: Any) -> Try:
    """Watch a ClusterStorageContainer; the Event on it."""

    async def run() -> str:
        api, cache = FakeKubeApi(), Cache()
        cache.put(a_container("1", **spec))
        await IgnoredSettings(api, lambda: NOW, "isvc-system").of_storage_containers(cache)
        return "; ".join(f"{event['reason']} {event['message']}" for event in api.events)

    return lambda _: asyncio.run(run())


def refused(cluster: Cluster) -> None:
    cluster.api.failing[DEPLOYMENT] = RequestRefused(403, "exceeded quota")


def allowed(cluster: Cluster) -> None:
    refused(cluster)
    cluster.api.failing.clear()


def unchanged(cluster: Cluster) -> None:
    assert cluster.api.failing == {}


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"x": value}
    return value


def in_s3(data: dict[str, str]) -> Try:
    return spec(an_account("s3"), a_secret("s3", data), model={"storageUri": "s3://models/bert"})


def with_args(*args: str) -> Try:
    return spec(runtimes=[{"container": {"args": list(args)}}])


def with_ports(ports: Any) -> Try:
    return spec(model=None, predictor={"containers": [{"name": "kserve-container", "image": "mine:1", "ports": ports}]})


FAILING = "tests/e2e/cluster/test_services_that_fail.py"
ON_A_CLUSTER = f"{FAILING}::test_a_service_is_ready_once_its_fix_is_followed"
OUTAGES = "tests/e2e/cluster/test_outages.py"
GATEWAYS = "tests/integration/operator_core/test_gateway_api.py"
CONTESTED = "tests/integration/operator_core/test_contested.py"
AUTOSCALING = "tests/integration/operator_core/test_autoscaling.py"
OF_GATEWAYS = "`NotAllowedByListeners`, `NoMatchingListenerHostname`, `NoMatchingParent`, `NotAccepted`, …"
HERE: tuple[Tried, ...] = (
    Provoked(("`NoSupportingRuntime`", "no runtime serves"), "no runtime serves model format 'pytroch'",
             spec(model={"modelFormat": {"name": "pytroch"}}),
             spec(model={"modelFormat": {"name": "pytroch"}}, runtimes=[{"formats": [a_format("pytroch")]}])),
    Provoked(("`RuntimeNotRecognized`", "runtime 'x' of"), "runtime 'x' of spec.predictor.model.runtime does not exist",
             spec(model={"runtime": "x"}), spec(model={})),
    Provoked(("`RuntimeNotRecognized`", "runtime 'x' … cannot be used"), "cannot be used: ServingRuntime mine",
             chosen(unreadable={"mine": "ServingRuntime mine is not valid: spec.containers: Field required"}),
             chosen(cluster=(a_runtime("mine"),))),
    Provoked(("`RuntimeDisabled`", "runtime 'x' is disabled"), "is disabled; enable it or name another one",
             spec(model={"runtime": "kserve-torchserve"}, runtimes=[{"disabled": True}]),
             spec(model={"runtime": "kserve-torchserve"}, runtimes=[{"disabled": False}])),
    Provoked(("`InvalidPredictorSpec`", "the missing or unsupported field"), "nothing to serve: give the predictor",
             spec(model=None), spec(model={})),
    Provoked(("`InvalidCredentials`", "secret x lacks the key y"), "secret s3 lacks the key AWS_ACCESS_KEY_ID",
             in_s3({"AWS_SECRET_ACCESS_KEY": "k"}), in_s3(dict(S3_KEYS))),
    Provoked(("`InvalidCertificate`", "secret x, which the pods"), "are to serve TLS with, does not exist",
             certified(exists=False), certified()),
    Provoked(("`ReconcileFailed`", "Deployment x exists"), "and was not made by this operator",
             reconciled(theirs), reconciled(theirs_deleted)),
    Elsewhere(("`ReconcileFailed`", "…unknown field"),
              "tests/integration/operator_core/test_status.py::"
              "test_an_unknown_field_inside_of_a_containers_field_is_reported_with_its_path"),
    Provoked(("`ReconcileFailed`", "Deployment x belongs to"), "belongs to InferenceService other; rename one",
             reconciled(of_another), reconciled(of_another, predictor={"name": "mine"})),
    Provoked(("`ReconcileFailed`", "the API server's message"), "Deployment torchserve-predictor: exceeded quota",
             reconciled(refused), reconciled(allowed)),
    Observed(("`PodsRefused`", "the message of a quota"), ("a quota",), ON_A_CLUSTER),
    Observed(("`ServiceAccountNotFound`", '… serviceaccount "x" not found'), ("a service account that does not exist",),
             f"{FAILING}::test_a_service_is_ready_once_its_service_account_exists"),
    Provoked(("`InvalidPredictorSpec`", "args of container"), "contains {{ .Name | upper }}, which is not supported",
             with_args("{{ .Name | upper }}"), with_args("{{.Name}}", '{{ "{{" }} x }}')),
    Provoked(("`InvalidPredictorSpec`", "… nested deeper"), "nested deeper than 32 levels",
             spec(predictor={"containers": [nested(40)]}, model=None), spec()),
    Provoked(("`InvalidPredictorSpec`", "spec.predictor.containers[0].ports"),
             "spec.predictor.containers[0].ports: Input should be a valid list",
             with_ports(8080), with_ports([{"containerPort": 8080}])),
    Provoked(("`InvalidPredictorSpec`", "InferenceService x is not valid"), "PYTHONPATH is not allowed",
             reconciled(unchanged, model={"env": [{"name": "PYTHONPATH", "value": "/"}]}),
             reconciled(unchanged, model={"env": [{"name": "MINE", "value": "/"}]})),
    Provoked(("`ReconcileFailed`", "the operator has failed"), "has failed (ZeroDivisionError); see its log",
             with_a_bug(ZeroDivisionError()), with_a_bug(None)),
    Provoked(("`FieldsIgnored`", "on a ClusterStorageContainer"), "did you mean workloadType?",
             stored(workloadTyp="initContainer"), stored(workloadType="initContainer")),
    Provoked(("`SettingsIgnored`", "on the ConfigMap"), "ingres",
             settings(ingress={"ingressClas": "nginx"}), settings(ingress={"ingressClassName": "nginx"})),
    Provoked(("`InvalidConfig`", "on the ConfigMap"), "ingress: Invalid JSON",
             configured(ingress="{"), configured(ingress="{}")),
    Provoked(("`HostTaken`", "older services have hosts"), "older services have hosts that this one requests",
             reconciled(with_an_older, labels={"host": "bank"}, config=ONE_HOST),
             reconciled(with_an_older, labels={"host": "bank"})),
    Elsewhere(("`GatewayApiNotInstalled`", "the cluster has no kind HTTPRoute"),
              f"{GATEWAYS}::test_the_routes_are_created_once_the_gateway_api_is_installed"),
    Observed(("`ParentStatusNotAvailable`", "the Gateway has reported"), ("a Gateway that reports nothing",),
             f"{GATEWAYS}::test_the_condition_is_what_the_gateway_reports"),
    Elsewhere((OF_GATEWAYS, "the Gateway's own"), f"{GATEWAYS}::test_the_condition_is_what_the_gateway_reports"),
    Provoked(("`AnnotationNotAllowed`", "no Ingress or HTTPRoute"), f"annotations that restrict access: {AUTH}",
             reconciled(unchanged, annotations={AUTH: "http://auth"}),
             reconciled(unchanged, annotations={AUTH: "http://auth"}, config=ALLOWED)),
    Provoked(("`Stopped`", "the service is stopped"), "service is stopped by its annotation",
             reconciled(unchanged, annotations={"serving.kserve.io/stop": "true"}), reconciled(unchanged)),
    Observed(("`ClaimNotFound`", "the claim of"), ("a claim that does not exist",), ON_A_CLUSTER),
    Observed(("`ClaimNotBound`", "the claim has no volume"), ("a claim without a volume",),
             f"{FAILING}::test_a_service_is_ready_once_its_claim_has_a_volume"),
    Observed(("`ClaimInUse`", "another node"), ("a claim that another node has", "a claim that another pod has"),
             f"{FAILING}::test_a_service_is_ready_once_nobody_else_has_its_claim"),
    Observed(("`ClaimElsewhere`", "the claim's volume"), ("a claim whose volume is elsewhere",),
             f"{FAILING}::test_a_service_is_ready_once_its_claims_volume_is_on_its_node"),
    Observed(("`VolumeNotMounted`", "the kubelet's message"), ("a volume of a secret that does not exist",),
             ON_A_CLUSTER),
    Observed(("`Unschedulable`", "… node(s) were"), ("a node that is cordoned",),
             "tests/e2e/cluster/test_node_outages.py::"
             "test_a_pod_waits_for_a_cordoned_node_until_it_is_uncordoned"),
    Observed(("`Unschedulable`", "no node has enough"), ("no node with enough cpu",), ON_A_CLUSTER),
    Observed(("`ImagePullFailed`", "the image or its registry"), ("an image that cannot be pulled",), ON_A_CLUSTER),
    Observed(("`ReadinessLost`", "pod x, container y"), (
        "a server that does not respond any more", "a server that does not respond to its readiness probe any more"),
        f"{OUTAGES}::test_a_server_that_breaks_is_named_until_its_pod_is_replaced"),
    Observed(("`NodeNotReady`", "the pod counts as"), ("a node that does not report any more",),
             "tests/e2e/cluster/test_node_outages.py::"
             "test_a_node_that_does_not_report_is_named_until_it_reports_again"),
    Observed(("`DeploymentPaused`", "Deployment x is paused"), ("a Deployment that is paused",),
             "tests/integration/operator_core/test_told_changes.py::"
             "test_a_paused_deployment_is_named_until_it_is_resumed"),
    Observed(("`MinimumReplicasUnavailable`", "fewer pods serve"), ("a pod that is replaced after it served",),
             f"{OUTAGES}::test_a_pod_that_is_deleted_leaves_too_few_until_it_is_replaced"),
    Observed(("`ContainerConfigInvalid`", "the image runs as root"), ("an image of root",),
             f"{FAILING}::test_a_service_is_ready_once_its_image_has_a_user"),
    Observed(("`ContainerConfigInvalid`", "`env`, `envFrom`"), (
        "a secret that does not exist", "a command that does not exist"), ON_A_CLUSTER),
    Observed(("`ChangedByOthers`", "another client changes"), ("another client",),
             f"{CONTESTED}::"
             "test_a_fight_for_a_field_ends_in_a_condition_and_is_over_when_the_other_client_stops"),
    Observed(("`FieldsNotKept`", "the API server stores"), ("a webhook",),
             f"{CONTESTED}::test_what_a_webhook_changes_in_each_write_is_reported_and_not_written_again"),
    Observed(("`ScalingInactive`", "HorizontalPodAutoscaler x"), ("an autoscaler without metrics",),
             f"{AUTOSCALING}::test_a_cluster_without_metrics_is_named_until_it_has_some"),
    Observed(("`ScaledObjectNotReady`", "ScaledObject x"), ("a ScaledObject that KEDA refuses",),
             f"{AUTOSCALING}::test_a_scaled_object_that_keda_refuses_is_named_until_it_takes_it"),
    Provoked(("`CertificateExpires`", "less than a tenth"), "clients will refuse the certificate of secret certs from",
             certified(after=0.95), certified()),
    Provoked(("`CertificateExpired`", "the certificate is no longer"), "clients refuse the certificate of secret certs",
             certified(after=1.5), certified()),
    Provoked(("`HostsMissing`", "the certificate lacks"), "secret certs is not for torchserve-predictor",
             certified(["other.example"]), certified()),
)  # fmt: skip
