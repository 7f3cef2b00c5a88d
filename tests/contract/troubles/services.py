"""Rows about a service: its spec, what it refers to, its pods as the cluster describes them, and its conditions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from isvc_operator.errors import InvalidSpec, OperatorError
from isvc_operator.kube.errors import KubeError, RequestRefused
from isvc_operator.kube.requests import path_of
from isvc_operator.resolve.runtime import Runtimes, choose_runtime
from tests.contract.troubles.rows import Elsewhere, Observed, Provoked, Tried
from tests.support.builders import NAMESPACE, a_format, a_model, a_runtime, a_runtime_body, a_service_body
from tests.support.credentials import S3_KEYS, a_secret, an_account
from tests.support.outcomes import Manifest, a_config_map, outcome_of
from tests.support.reconcile_fixture import Cluster, cluster_with

Try = Callable[[Path], str]
INVALID = "InvalidPredictorSpec"  # the reason of what is refused before it is resolved
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


def reconciled(change: Callable[[Cluster], object], *service: dict[str, Any], **fields: Any) -> Try:
    """Reconcile a service after a change to the cluster; what its condition says, if it is False."""

    async def run() -> str:
        cluster = cluster_with(a_service_body(**fields), a_runtime_body(), *service)
        change(cluster)
        with contextlib.suppress(KubeError, OperatorError):
            await cluster.reconcile()
        ready = cluster.condition("Ready")
        return f"{ready['reason']} {ready['message']}" if ready["status"] == "False" else ""

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


CANNOT_START = "tests/unit/operator_core/observe/test_pods.py::test_a_pod_is_stopped_by"
TLS = "tests/unit/operator_core/resolve/test_tls.py"
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
    Elsewhere(("`InvalidCertificate`", "secret x, which the pods"), (
        f"{TLS}::test_a_missing_secret_is_named", f"{TLS}::test_a_secret_that_cannot_be_used_is_named",
        f"{TLS}::test_pods_serve_with_the_secret_that_is_asked_for")),
    Provoked(("`ReconcileFailed`", "Deployment x exists"), "and was not made by this operator",
             reconciled(theirs), reconciled(theirs_deleted)),
    Elsewhere(("`ReconcileFailed`", "…unknown field"), (
        "tests/integration/operator_core/test_created.py::test_a_field_that_the_api_server_does_not_know_is_refused",
        "tests/integration/operator_core/test_status.py::"
        "test_an_unknown_field_inside_of_a_containers_field_is_reported_with_its_path")),
    Elsewhere(("`ReconcileFailed`", "Deployment x belongs to"), (
        "tests/integration/operator_core/test_adopting.py::test_a_service_does_not_take_the_children_of_another",)),
    Provoked(("`ReconcileFailed`", "the API server's message"), "Deployment torchserve-predictor: exceeded quota",
             reconciled(refused), reconciled(allowed)),
    Observed(("`PodsRefused`", "the message of a quota"), ("a quota",)),
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
    Elsewhere(("`ReconcileFailed`", "the operator has failed"), (
        "tests/unit/operator_core/test_hostile_services.py::test_a_bug_of_the_operator_is_reported_in_the_status",)),
    Elsewhere(("`FieldsIgnored`", "an Event on a ClusterStorageContainer"), (
        "tests/unit/operator_core/kube/test_ignored_settings.py::"
        "test_a_storage_container_gets_an_event_for_each_version_with_unknown_fields",
        "tests/integration/operator_core/test_storage.py::test_a_storage_container_with_unknown_fields_gets_an_event")),
    Provoked(("`SettingsIgnored`", "an Event on the ConfigMap"), "ingres",
             settings(ingress={"ingressClas": "nginx"}), settings(ingress={"ingressClassName": "nginx"})),
    Elsewhere(("`HostTaken`", "older services have hosts"), (
        "tests/unit/operator_core/reconcile/test_hosts.py::test_without_the_host_that_its_url_shows_a_service_is_not_ready",
        "tests/unit/operator_core/reconcile/test_hosts.py::"
        "test_the_younger_service_gets_the_host_of_a_deleted_older_one")),
    Elsewhere(("`GatewayApiNotInstalled`", "the cluster has no kind HTTPRoute"), (
        "tests/integration/operator_core/test_gateway_api.py::"
        "test_the_routes_are_created_once_the_gateway_api_is_installed",)),
    Observed(("`ParentStatusNotAvailable`", "the Gateway has reported"), ("a Gateway that reports nothing",), (
        "tests/integration/operator_core/test_gateway_api.py::test_the_condition_is_what_the_gateway_reports",)),
    Elsewhere((OF_GATEWAYS, "the Gateway's own"), (
        "tests/integration/operator_core/test_gateway_api.py::test_the_condition_is_what_the_gateway_reports",
        "tests/unit/operator_core/observe/test_routes.py::"
        "test_reason_and_message_are_those_of_the_gateway_with_what_to_do")),
    Observed(("`AnnotationNotAllowed`", "no Ingress or HTTPRoute"), ("an annotation that guards",), (
        "tests/unit/operator_core/reconcile/test_hosts.py::"
        "test_a_service_that_would_go_without_what_guards_it_has_no_ingress_and_says_so",)),
    Provoked(("`Stopped`", "the service is stopped"), "service is stopped by its annotation",
             reconciled(unchanged, annotations={"serving.kserve.io/stop": "true"}), reconciled(unchanged)),
    Observed(("`ClaimNotFound`", "the claim of"), ("a claim that does not exist",), (
        "tests/e2e/cluster/test_services_that_fail.py::test_a_missing_claim_is_named",
        "tests/integration/operator_core/test_status.py::test_a_missing_claim_is_named_with_the_fix")),
    Observed(("`ClaimNotBound`", "the claim has no volume"), ("a claim without a volume",), (CANNOT_START,)),
    Observed(("`ClaimInUse`", "another node"), ("a claim that another node has", "a claim that another pod has"), (
        "tests/integration/operator_core/test_storage.py::"
        "test_a_claim_in_use_by_another_node_is_reported_from_the_pods_events",)),
    Observed(("`ClaimElsewhere`", "the claim's volume"), ("a claim whose volume is elsewhere",), (CANNOT_START,)),
    Observed(("`VolumeNotMounted`", "the kubelet's message"), ("a volume of a secret that does not exist",), (
        "tests/unit/operator_core/observe/test_volumes.py::test_volumes_that_came_after_all_are_no_failure",)),
    Observed(("`Unschedulable`", "no node has enough"), ("no node with enough cpu",), (CANNOT_START,)),
    Observed(("`ImagePullFailed`", "the image or its registry"), ("an image that cannot be pulled",), (CANNOT_START,)),
    Observed(("`ReadinessLost`", "pod x, container y"), (
        "a server that does not respond any more", "a server that does not respond to its readiness probe any more"), (
        "tests/e2e/cluster/test_outages.py::test_a_server_that_hangs_has_lost_its_readiness_until_it_responds_again",)),
    Observed(("`NodeNotReady`", "the pod counts as"), ("a node that does not report any more",), (CANNOT_START,)),
    Observed(("`MinimumReplicasUnavailable`", "fewer pods serve"), ("a pod that is replaced after it served",), (
        "tests/unit/operator_core/observe/test_component.py::"
        "test_a_component_stays_ready_while_its_pods_are_replaced_and_enough_of_them_serve",)),
    Elsewhere(("`ContainerConfigInvalid`", "the image runs as root"), (CANNOT_START,)),
    Elsewhere(("`ContainerConfigInvalid`", "`env`, `envFrom`"), (CANNOT_START,)),
    Observed(("`ChangedByOthers`", "another client changes"), ("another client",), (
        "tests/integration/operator_core/test_contested.py::"
        "test_a_fight_for_a_field_ends_in_a_condition_and_is_over_when_the_other_client_stops",)),
    Observed(("`FieldsNotKept`", "the API server stores"), ("a webhook",), (
        "tests/integration/operator_core/test_contested.py::"
        "test_what_a_webhook_changes_in_each_write_is_reported_and_not_written_again",
        "tests/integration/operator_core/test_contested.py::"
        "test_a_field_whose_feature_is_off_is_reported_and_not_written_again")),
    Observed(("`CertificateExpires`", "less than a tenth"), ("a certificate that expires",), (
        f"{TLS}::test_the_status_says_when_a_certificate_has_to_be_renewed",)),
    Observed(("`CertificateExpired`", "the certificate is no longer"), ("a certificate that has expired",), (
        f"{TLS}::test_the_status_says_when_a_certificate_has_to_be_renewed",)),
    Observed(("`HostsMissing`", "the certificate lacks"), ("a certificate for other names",), (
        f"{TLS}::test_the_status_names_the_hosts_that_a_certificate_lacks",)),
)  # fmt: skip
