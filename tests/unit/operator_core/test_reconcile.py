"""One service brought to what its spec says: which calls that takes, and what its status says afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.config import IngressConfig, OperatorConfig, parse_config
from isvc_operator.errors import InvalidCredentials
from isvc_operator.kube.cache import Cache, ServiceKey
from isvc_operator.kube.errors import Conflict, KubeError, Refused
from isvc_operator.kube.handover import GRACE, Handover
from isvc_operator.kube.objects import ObjectReader
from isvc_operator.kube.pod_details import LOG_EVERY, READY_LATE, PodDetails
from isvc_operator.kube.requests import path_of
from isvc_operator.reconcile import Reconciler
from tests.support.builders import (
    EARLIER,
    NAMESPACE,
    NOW,
    a_child,
    a_container,
    a_crashed_pod,
    a_deployment_status,
    a_pod,
    a_ready_pod,
    a_runtime_body,
    a_service_body,
    an_initializer,
    an_owner,
    ended,
    running,
    waiting,
)
from tests.support.credentials import a_config_map, a_secret, an_account, s3_annotations
from tests.support.fakes import Clock, FakeKubeApi, Seconds

KEY = ServiceKey(NAMESPACE, "torchserve")
POD = "torchserve-predictor-1-a"

FIRST_CALLS = [
    "PATCH deployments/torchserve-predictor",
    "PATCH services/torchserve-predictor",
    "PATCH ingresses/torchserve",
    "PATCH inferenceservices/torchserve/status",
    "POST events",
]
STATUS = "PATCH inferenceservices/torchserve/status"
LOG = f"GET pods/{POD}/log"


@dataclass
class Cluster:
    """An API server, and the operator that watches it."""

    api: FakeKubeApi
    cache: Cache
    clock: Clock
    seconds: Seconds
    reconciler: Reconciler
    again: float | None = None

    async def reconcile(self, failures: int = 0) -> list[str]:
        """Let the watches catch up, reconcile after so many failures, and tell the calls that were made."""
        self.api.feed(self.cache)
        before = len(self.api.calls)
        self.again = await self.reconciler.reconcile(KEY, failures)
        return self.calls_since(before)

    def calls_since(self, start: int) -> list[str]:
        return [f"{call.method} {call.path.partition(f'/{NAMESPACE}/')[2]}" for call in self.api.calls[start:]]

    async def settle(self) -> None:
        """Reconcile until there is nothing left to do."""
        while await self.reconcile():
            pass

    def edit_service(self, **fields: Any) -> None:
        """Another generation of the service, as a user would apply it."""
        status = self.service.get("status", {})
        self.api.put({**a_service_body(**fields), "status": status})

    def roll_out(self, *pods: dict[str, Any], component: str = "predictor", **status: Any) -> None:
        """What the Deployment controller and the kubelet would do."""
        deployment = self.child("Deployment", component)
        observed = {"observed_generation": deployment["metadata"]["generation"], **status}
        self.api.put({**deployment, "status": a_deployment_status(**observed)})
        for pod in pods:
            self.api.put(pod)

    @property
    def service(self) -> dict[str, Any]:
        found = self.api.get("InferenceService", *KEY)
        assert found is not None
        return found

    def child(self, kind: str, component: str = "predictor") -> dict[str, Any]:
        found = self.api.get(kind, NAMESPACE, "torchserve" if kind == "Ingress" else f"torchserve-{component}")
        assert found is not None
        return found

    def condition(self, type_: str) -> dict[str, Any]:
        (found,) = [item for item in self.service["status"]["conditions"] if item["type"] == type_]
        return dict(found)


def cluster_with(service: dict[str, Any], *runtimes: dict[str, Any], config: OperatorConfig | None = None) -> Cluster:
    api = FakeKubeApi()
    api.put(service)
    return watched(api, Clock(EARLIER), *runtimes, config=config)


def watched(api: FakeKubeApi, clock: Clock, *runtimes: dict[str, Any], config: OperatorConfig | None = None) -> Cluster:
    """The API server with an operator that has just started."""
    cache, seconds = Cache(LABEL_SERVICE), Seconds()
    for runtime in runtimes:
        cache.put(runtime)
    objects, details = ObjectReader(api, seconds), PodDetails(api, seconds)
    handover = Handover(seconds)
    reconciler = Reconciler(
        api, cache, objects, details, handover, config or OperatorConfig(), clock, home="isvc-system"
    )
    return Cluster(api, cache, clock, seconds, reconciler)


@pytest.fixture
def cluster() -> Cluster:
    return cluster_with(a_service_body(), a_runtime_body())


@pytest.fixture
async def serving(cluster: Cluster) -> Cluster:
    """A service that is up, and everybody knows it."""
    await cluster.reconcile()
    cluster.roll_out(a_ready_pod())
    await cluster.settle()
    assert cluster.condition("Ready")["status"] == "True"
    return cluster


# --- what is sent --------------------------------------------------------------------------------------


async def test_the_first_reconcile_makes_the_children_the_status_and_one_event(cluster: Cluster) -> None:
    assert await cluster.reconcile() == FIRST_CALLS

    assert cluster.condition("Ready")["status"] == "Unknown"
    assert [(event["type"], event["reason"]) for event in cluster.api.events] == [("Normal", "CreatingPod")]


async def test_a_second_reconcile_sends_nothing(cluster: Cluster) -> None:
    await cluster.reconcile()

    assert await cluster.reconcile() == []


async def test_a_reconcile_reads_its_own_writes_before_the_watches_tell_them(cluster: Cluster) -> None:
    await cluster.reconcile()
    before = len(cluster.api.calls)

    await cluster.reconciler.reconcile(KEY)

    assert cluster.calls_since(before) == []


async def test_an_operator_that_starts_anew_sends_nothing(serving: Cluster) -> None:
    restarted = watched(serving.api, serving.clock, a_runtime_body())
    serving.clock.time = NOW

    assert await restarted.reconcile() == []


async def test_readiness_is_one_status_write_and_one_event(cluster: Cluster) -> None:
    await cluster.reconcile()
    cluster.roll_out(a_ready_pod())
    cluster.clock.time = NOW

    assert await cluster.reconcile() == [STATUS, "POST events"]

    assert cluster.condition("Ready") == {"type": "Ready", "status": "True", "lastTransitionTime": NOW}
    assert cluster.condition("IngressReady")["lastTransitionTime"] == EARLIER
    assert cluster.service["status"]["observedGeneration"] == 1
    assert cluster.api.events[-1]["reason"] == "InferenceServiceReady"


async def test_time_alone_changes_nothing(serving: Cluster) -> None:
    serving.clock.time = NOW

    assert await serving.reconcile() == []


async def test_only_what_changed_of_the_status_is_sent(cluster: Cluster) -> None:
    await cluster.reconcile()
    cluster.roll_out(a_ready_pod())
    await cluster.reconcile()

    (patch,) = [call.body for call in cluster.api.calls if call.path.endswith("/status")][1:]

    assert patch is not None
    assert sorted(patch["status"]) == ["conditions", "modelStatus"]
    assert "lastFailureInfo" not in patch["status"]["modelStatus"]


async def test_a_change_of_the_spec_applies_the_child_it_concerns(serving: Cluster) -> None:
    serving.edit_service(model={"args": ["--debug"]})

    assert await serving.reconcile() == ["PATCH deployments/torchserve-predictor", STATUS, "POST events"]

    assert serving.child("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"] == ["--debug"]
    assert serving.service["status"]["observedGeneration"] == 2
    assert serving.condition("Ready")["status"] == "Unknown"


async def test_a_change_that_no_child_shows_writes_the_generation_only(serving: Cluster) -> None:
    serving.edit_service(model={"modelFormat": {"name": "pytorch", "version": "1"}})

    assert await serving.reconcile() == [STATUS]

    assert (serving.api.calls[-1].body or {})["status"] == {"observedGeneration": 2}


async def test_a_child_edited_by_hand_comes_back_by_force(serving: Cluster) -> None:
    before = serving.child("Service")
    serving.api.put({**before, "spec": {**before["spec"], "selector": {"app": "mine"}}})

    assert await serving.reconcile() == ["PATCH services/torchserve-predictor"]

    assert serving.child("Service")["spec"] == before["spec"]
    assert ("force", "true") in serving.api.calls[-1].query


async def test_a_child_deleted_by_hand_comes_back(serving: Cluster) -> None:
    serving.api.remove("Ingress", NAMESPACE, "torchserve")

    assert await serving.reconcile() == ["PATCH ingresses/torchserve"]


async def test_a_service_that_becomes_internal_loses_its_ingress(serving: Cluster) -> None:
    serving.edit_service(labels={"networking.kserve.io/visibility": "cluster-local"})

    await serving.reconcile()

    assert serving.api.get("Ingress", NAMESPACE, "torchserve") is None
    assert serving.condition("IngressReady")["status"] == "True"


async def test_a_new_configuration_is_used_from_the_next_reconcile_on(serving: Cluster) -> None:
    serving.reconciler.config = OperatorConfig(ingress=IngressConfig(ingress_domain="ml.test"))

    assert await serving.reconcile() == ["PATCH ingresses/torchserve", STATUS]

    assert serving.service["status"]["url"] == "http://torchserve.models.ml.test"


async def test_services_keep_their_form_when_new_ones_are_to_be_headless(serving: Cluster) -> None:
    serving.reconciler.config = parse_config({"service": '{"serviceClusterIPNone": true}'})

    assert await serving.reconcile() == []


async def test_a_runtime_that_changes_rolls_the_services_that_use_it(serving: Cluster) -> None:
    body = a_runtime_body(container={"image": "registry.example/torchserve:2.0"})
    serving.cache.put({**body, "metadata": {**body["metadata"], "resourceVersion": "2"}})

    assert (await serving.reconcile())[0] == "PATCH deployments/torchserve-predictor"


async def test_a_service_that_is_gone_needs_nothing(serving: Cluster) -> None:
    serving.api.remove("InferenceService", *KEY)

    assert await serving.reconcile() == []


async def test_a_service_on_its_way_out_needs_nothing(serving: Cluster) -> None:
    body = serving.service
    serving.api.put({**body, "metadata": {**body["metadata"], "deletionTimestamp": NOW}})

    assert await serving.reconcile() == []


async def test_a_service_of_kserves_that_is_on_its_way_out_loses_kserves_finalizer_alone(serving: Cluster) -> None:
    body = serving.service
    leaving = {"deletionTimestamp": NOW, "finalizers": ["mine/first", "inferenceservice.finalizers"]}
    serving.api.put({**body, "metadata": {**body["metadata"], **leaving}})

    assert await serving.reconcile() == ["PATCH inferenceservices/torchserve"]
    assert serving.service["metadata"]["finalizers"] == ["mine/first"]
    assert await serving.reconcile() == []


async def test_a_service_made_anew_under_its_name_gets_children_of_its_own(serving: Cluster) -> None:
    serving.api.remove("InferenceService", *KEY)
    serving.api.put(a_service_body(uid="another-uid"))

    await serving.reconcile()

    owners = [
        serving.child(kind)["metadata"]["ownerReferences"][0]["uid"] for kind in ("Deployment", "Service", "Ingress")
    ]
    assert owners == ["another-uid"] * 3


# --- stopped, and refused --------------------------------------------------------------------------------


async def test_a_stopped_service_has_no_children(serving: Cluster) -> None:
    serving.edit_service(annotations={"serving.kserve.io/stop": "true"})

    assert await serving.reconcile() == [
        "DELETE deployments/torchserve-predictor",
        "DELETE ingresses/torchserve",
        "DELETE services/torchserve-predictor",
        STATUS,
        "POST events",
    ]
    assert serving.condition("Stopped")["status"] == "True"
    assert sorted(serving.service["status"]) == ["conditions", "deploymentMode", "observedGeneration"]


async def test_a_stopped_service_stays_stopped_without_a_call(serving: Cluster) -> None:
    serving.edit_service(annotations={"serving.kserve.io/stop": "true"})
    await serving.reconcile()

    assert await serving.reconcile() == []


async def test_the_pods_that_a_stopped_service_leaves_behind_are_no_failure(serving: Cluster) -> None:
    serving.edit_service(annotations={"serving.kserve.io/stop": "true"})
    serving.api.put(a_crashed_pod())

    assert LOG not in await serving.reconcile()

    assert serving.condition("PredictorReady")["reason"] == "Stopped"


async def test_a_stopped_service_starts_again(serving: Cluster) -> None:
    serving.edit_service(annotations={"serving.kserve.io/stop": "true"})
    await serving.reconcile()
    serving.api.remove("Pod", NAMESPACE, POD)
    serving.edit_service()

    assert await serving.reconcile() == FIRST_CALLS


async def test_a_spec_that_cannot_be_served_leaves_what_runs_alone(serving: Cluster) -> None:
    running_children = [serving.child(kind) for kind in ("Deployment", "Service", "Ingress")]
    serving.edit_service(model={"modelFormat": {"name": "pytorsh"}})

    assert await serving.reconcile() == [STATUS, "POST events"]

    assert [serving.child(kind) for kind in ("Deployment", "Service", "Ingress")] == running_children
    assert serving.condition("PredictorReady")["reason"] == "NoSupportingRuntime"
    assert serving.service["status"]["modelStatus"]["transitionStatus"] == "InvalidSpec"
    assert serving.api.events[-1]["type"] == "Warning"
    assert "no runtime serves model format 'pytorsh'" in serving.api.events[-1]["message"]


async def test_a_spec_that_was_corrected_recovers_without_touching_what_runs(serving: Cluster) -> None:
    serving.edit_service(model={"modelFormat": {"name": "pytorsh"}})
    await serving.reconcile()
    serving.edit_service()

    assert await serving.reconcile() == [STATUS, "POST events"]

    assert serving.condition("Ready")["status"] == "True"
    assert "lastFailureInfo" not in serving.service["status"]["modelStatus"]


async def test_a_service_waits_for_its_runtime_and_is_served_once_it_is_there() -> None:
    cluster = cluster_with(a_service_body())

    assert await cluster.reconcile() == [STATUS, "POST events"]
    assert await cluster.reconcile() == []
    cluster.cache.put(a_runtime_body())

    assert await cluster.reconcile() == FIRST_CALLS


async def test_fields_that_are_not_known_are_named_in_a_condition() -> None:
    cluster = cluster_with(a_service_body(spec={"predictr": {}}, predictor={"scaleMetric": "cpu"}), a_runtime_body())

    await cluster.reconcile()

    assert cluster.condition("SpecSupported")["message"] == (
        "Not honoured: spec.predictr (did you mean predictor?); spec.predictor.scaleMetric"
    )


async def test_an_annotation_of_kserves_that_is_not_honoured_is_named_in_the_same_condition() -> None:
    annotations = {"serving.kserve.io/deploymentMode": "Serverless"}
    cluster = cluster_with(a_service_body(annotations=annotations), a_runtime_body())

    await cluster.reconcile()

    assert cluster.condition("SpecSupported")["message"] == (
        "Not honoured: annotation serving.kserve.io/deploymentMode: Serverless (the service is served as by Standard)"
    )


async def test_a_body_that_is_not_of_the_kinds_shape_is_told_in_a_condition() -> None:
    cluster = cluster_with(a_service_body(predictor={"minReplicas": "three"}), a_runtime_body())

    assert await cluster.reconcile() == [STATUS, "POST events"]

    ready = cluster.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "InvalidPredictorSpec")
    assert "spec.predictor.minReplicas: " in ready["message"]
    cluster.clock.time = NOW
    assert await cluster.reconcile() == []


# --- what KServe has left ------------------------------------------------------------------------------------

INTERNAL: dict[str, Any] = {"labels": {"networking.kserve.io/visibility": "cluster-local"}}
STOPPED: dict[str, Any] = {"annotations": {"serving.kserve.io/stop": "true"}}


def with_kserves_ingress(**fields: Any) -> Cluster:
    """A service that KServe's controller has had, with its Ingress, which has no label."""
    body = a_service_body(**fields)
    body["metadata"]["finalizers"] = ["inferenceservice.finalizers"]
    cluster = cluster_with(body, a_runtime_body())
    owned = {"name": "torchserve", "namespace": NAMESPACE, "ownerReferences": [an_owner()]}
    cluster.api.put(a_child("Ingress", metadata=owned))
    return cluster


@pytest.mark.parametrize("fields", [INTERNAL, STOPPED])
async def test_kserves_ingress_goes_where_none_is_wanted_and_is_looked_for_once(fields: dict[str, Any]) -> None:
    cluster = with_kserves_ingress(**fields)

    calls = [call for call in await cluster.reconcile() if "ingresses" in call]

    assert calls == ["GET ingresses/torchserve", "DELETE ingresses/torchserve"]
    assert cluster.api.get("Ingress", NAMESPACE, "torchserve") is None
    assert await cluster.reconcile() == []


async def test_an_ingress_of_somebody_elses_stays_where_none_is_wanted() -> None:
    cluster = with_kserves_ingress(**INTERNAL)
    cluster.api.remove("Ingress", NAMESPACE, "torchserve")
    mine = cluster.api.put(a_child("Ingress", metadata={"name": "torchserve", "namespace": NAMESPACE}))

    await cluster.reconcile()

    assert cluster.child("Ingress") == mine


async def test_no_ingress_is_looked_for_where_kserve_never_had_the_service() -> None:
    cluster = cluster_with(a_service_body(**INTERNAL), a_runtime_body())

    assert not any("ingresses" in call for call in await cluster.reconcile())


# --- what goes wrong on the way ---------------------------------------------------------------------------

DEPLOYMENT = ("PATCH", path_of("Deployment", NAMESPACE, "torchserve-predictor"))


async def test_an_apply_that_fails_is_told_in_a_condition_and_tried_again(cluster: Cluster) -> None:
    cluster.api.failing[DEPLOYMENT] = Refused(403, "exceeded quota")

    with pytest.raises(Refused, match="Deployment torchserve-predictor: exceeded quota"):
        await cluster.reconcile()

    ready = cluster.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ReconcileFailed")
    assert ready["message"] == "Deployment torchserve-predictor: exceeded quota"


async def test_an_apply_that_goes_on_failing_writes_the_status_once(cluster: Cluster) -> None:
    cluster.api.failing[DEPLOYMENT] = Refused(403, "exceeded quota")
    with pytest.raises(Refused):
        await cluster.reconcile()
    before = len(cluster.api.calls)

    with pytest.raises(Refused):
        await cluster.reconcile()

    assert cluster.calls_since(before) == ["PATCH deployments/torchserve-predictor"]


async def test_the_event_of_our_status_is_expected_so_that_a_failure_is_not_tried_again_at_once(
    cluster: Cluster,
) -> None:
    cluster.api.failing[DEPLOYMENT] = Refused(403, "exceeded quota")
    with pytest.raises(Refused):
        await cluster.reconcile()

    assert cluster.cache.was_expected(cluster.service)


async def test_an_apply_that_works_at_last_takes_the_failure_back(cluster: Cluster) -> None:
    cluster.api.failing[DEPLOYMENT] = Refused(403, "exceeded quota")
    with pytest.raises(Refused):
        await cluster.reconcile()
    cluster.api.failing.clear()

    assert await cluster.reconcile() == ["PATCH deployments/torchserve-predictor", STATUS, "POST events"]
    assert cluster.condition("Ready")["reason"] == "CreatingPod"


async def test_an_api_server_that_is_busy_for_a_moment_is_not_told(serving: Cluster) -> None:
    before = serving.service
    serving.api.failing[DEPLOYMENT] = KubeError(429, "too many requests")
    serving.edit_service(model={"args": ["--debug"]})

    for failures in range(4):
        with pytest.raises(KubeError):
            await serving.reconcile(failures)

    assert serving.service["status"] == before["status"]


@pytest.mark.parametrize("status", [0, 429, 500, 503])
async def test_an_api_server_that_goes_on_failing_is_told(serving: Cluster, status: int) -> None:
    serving.api.failing[DEPLOYMENT] = KubeError(status, "overloaded")
    serving.edit_service(model={"args": ["--debug"]})

    with pytest.raises(KubeError):
        await serving.reconcile(failures=4)

    assert serving.condition("Ready")["message"] == "Deployment torchserve-predictor: overloaded"


async def test_an_object_of_someone_else_is_told_with_what_to_do(cluster: Cluster) -> None:
    theirs = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "torchserve-predictor", "namespace": NAMESPACE},
    }
    theirs = cluster.api.put({**theirs, "spec": {"ports": []}})

    with pytest.raises(Conflict):
        await cluster.reconcile()

    assert cluster.child("Service") == theirs
    assert "Service torchserve-predictor exists in namespace models" in cluster.condition("Ready")["message"]


async def test_a_status_that_cannot_be_written_is_tried_again(cluster: Cluster) -> None:
    status = ("PATCH", path_of("InferenceService", *KEY) + "/status")
    cluster.api.failing[status] = KubeError(503, "overloaded")
    with pytest.raises(KubeError, match="overloaded"):
        await cluster.reconcile()
    cluster.api.failing.clear()

    assert await cluster.reconcile() == [STATUS, "POST events"]


async def test_a_service_that_goes_while_it_is_reconciled_is_no_failure(cluster: Cluster) -> None:
    cluster.api.feed(cluster.cache)
    cluster.api.remove("InferenceService", *KEY)

    await cluster.reconciler.reconcile(KEY)

    assert cluster.calls_since(0) == FIRST_CALLS[:4]


async def test_a_service_whose_end_no_watch_has_told_is_not_served_again_and_again(cluster: Cluster) -> None:
    cluster.api.feed(cluster.cache)
    cluster.api.remove("InferenceService", *KEY)
    await cluster.reconciler.reconcile(KEY)
    told = len(cluster.api.calls)

    await cluster.reconciler.reconcile(KEY)

    assert cluster.calls_since(told) == []


async def test_a_service_made_anew_while_it_is_reconciled_does_not_get_the_status_of_the_one_before(
    serving: Cluster,
) -> None:
    serving.roll_out(available=0, progressing="ReplicaSetUpdated")
    serving.api.feed(serving.cache)
    serving.api.remove("InferenceService", *KEY)
    serving.api.put(a_service_body(uid="another-uid"))

    await serving.reconciler.reconcile(KEY)

    assert "status" not in serving.service
    await serving.reconcile()
    assert serving.condition("Ready")["status"] == "Unknown"


# --- pods that fail, and their logs -------------------------------------------------------------------------


async def test_a_crash_is_told_with_its_last_log_lines(cluster: Cluster) -> None:
    await cluster.reconcile()
    cluster.roll_out(a_crashed_pod(), available=0, progressing="ReplicaSetUpdated")
    cluster.api.logs[f"{POD}/kserve-container"] = "Traceback …\nValueError: no such layer\n"

    assert await cluster.reconcile() == [LOG, STATUS, "POST events"]

    assert cluster.condition("PredictorReady")["message"] == (
        f"pod {POD}, container kserve-container ended with exit code 1: ValueError: no such layer\n"
        "Last log lines:\nTraceback …\nValueError: no such layer"
    )
    assert cluster.api.events[-1]["reason"] == "ServerFailed"


async def test_a_log_is_read_once_for_each_instance_of_a_container(cluster: Cluster) -> None:
    await cluster.reconcile()
    cluster.api.logs.update({f"{POD}/kserve-container": "first", f"{POD}/kserve-container/previous": "second"})

    def server(**state: Any) -> dict[str, Any]:
        return a_pod(phase="Running", initializer=an_initializer(), containers=[a_container(**state)])

    pods = {
        "ends": server(state=ended(1, instance="one")),
        "waits": server(state=waiting("CrashLoopBackOff"), before=ended(1, instance="one")),
        "runs again": server(state=running(), before=ended(1, instance="one")),
        "ends again": server(state=waiting("CrashLoopBackOff"), before=ended(1, instance="two")),
    }
    calls = {}
    for event, pod in pods.items():
        cluster.roll_out(pod, available=0, progressing="ReplicaSetUpdated")
        calls[event] = await cluster.reconcile()

    assert calls == {
        "ends": [LOG, STATUS, "POST events"],
        "waits": [],
        "runs again": [],
        "ends again": [LOG, STATUS],
    }


async def test_a_log_that_cannot_be_read_leaves_the_rest_of_the_story(cluster: Cluster) -> None:
    await cluster.reconcile()
    cluster.roll_out(a_crashed_pod(), available=0, progressing="ReplicaSetUpdated")

    assert await cluster.reconcile() == [LOG, STATUS, "POST events"]

    assert cluster.condition("PredictorReady")["message"] == (
        f"pod {POD}, container kserve-container ended with exit code 1: ValueError: no such layer"
    )


async def test_a_service_that_recovers_forgets_the_log(cluster: Cluster) -> None:
    await cluster.reconcile()
    cluster.api.logs[f"{POD}/kserve-container"] = "boom"
    cluster.roll_out(a_crashed_pod(), available=0, progressing="ReplicaSetUpdated")
    await cluster.reconcile()
    cluster.roll_out(a_ready_pod())

    assert await cluster.reconcile() == [STATUS, "POST events"]
    cluster.roll_out(a_crashed_pod(), available=0)

    assert await cluster.reconcile() == [LOG, STATUS, "POST events"]


async def test_a_failing_update_keeps_the_model_active(serving: Cluster) -> None:
    serving.edit_service(model={"storageUri": "pvc://leeway/broken"})
    await serving.reconcile()
    failed = an_initializer(ended(3, "config/config.properties is missing"))
    pod = a_pod("torchserve-predictor-2-a", template="2", created=NOW, initializer=failed)
    serving.roll_out(pod, updated=1, total=2, available=1, progressing="ReplicaSetUpdated")

    await serving.reconcile()

    assert serving.condition("Ready")["reason"] == "StorageInitializerFailed"
    assert serving.condition("Ready")["message"].endswith("Requests are still served (1 pods available).")
    assert serving.service["status"]["modelStatus"]["states"] == {
        "activeModelState": "Loaded",
        "targetModelState": "FailedToLoad",
    }


async def test_a_pod_of_the_predictor_before_hides_no_crash_of_one_with_another_name(serving: Cluster) -> None:
    serving.edit_service(predictor={"name": "v2"})
    serving.api.put(a_crashed_pod("torchserve-v2-predictor-1-a", app="isvc.torchserve-v2-predictor"))
    serving.api.put(a_ready_pod("torchserve-predictor-1-b", created=NOW))

    await serving.reconcile()

    assert serving.condition("PredictorReady")["reason"] == "ServerFailed"
    assert serving.service["status"]["modelStatus"]["copies"] == {"failedCopies": 1, "totalCopies": 0}


async def test_a_claim_that_does_not_exist_is_told_without_reading_a_log(cluster: Cluster) -> None:
    await cluster.reconcile()
    missing = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": 'persistentvolumeclaim "leeway" not found',
    }
    cluster.roll_out(a_pod(node=None, conditions=[missing]), available=0, progressing="ReplicaSetUpdated")

    assert await cluster.reconcile() == [STATUS, "POST events"]

    assert cluster.condition("Ready")["reason"] == "ClaimNotFound"


# --- what storage refers to -----------------------------------------------------------------------------

READS = ["GET serviceaccounts/default", "GET secrets/s3"]


@pytest.fixture
def in_s3() -> Cluster:
    """A service whose model is in S3, with the secret of its account."""
    cluster = cluster_with(a_service_body(model={"storageUri": "s3://models/bert"}), a_runtime_body())
    cluster.api.put(an_account("s3"))
    cluster.api.put(a_secret("s3", annotations=s3_annotations(region="eu-west-1")))
    return cluster


def initializer_env(cluster: Cluster) -> dict[str, Any]:
    (initializer,) = cluster.child("Deployment")["spec"]["template"]["spec"]["initContainers"]
    return {item["name"]: item.get("value") for item in initializer["env"]}


async def test_a_model_on_a_claim_reads_nothing_by_name_and_is_not_looked_at_again(serving: Cluster) -> None:
    assert [call.path for call in serving.api.calls if call.method == "GET"] == []
    assert serving.again is None


async def test_a_model_in_a_bucket_reads_the_account_and_its_secrets(in_s3: Cluster) -> None:
    assert await in_s3.reconcile() == [*READS, *FIRST_CALLS]

    assert initializer_env(in_s3)["AWS_DEFAULT_REGION"] == "eu-west-1"


async def test_a_second_reconcile_reads_nothing(in_s3: Cluster) -> None:
    await in_s3.reconcile()

    assert await in_s3.reconcile() == []


async def test_a_secret_that_was_changed_is_seen_when_the_service_is_looked_at_again(in_s3: Cluster) -> None:
    await in_s3.reconcile()
    in_s3.api.put(a_secret("s3", annotations=s3_annotations(region="us-east-1")))
    assert in_s3.again == 300.0
    in_s3.seconds.passed = in_s3.again

    assert await in_s3.reconcile() == [*READS, "PATCH deployments/torchserve-predictor"]

    assert initializer_env(in_s3)["AWS_DEFAULT_REGION"] == "us-east-1"


async def test_a_secret_that_cannot_be_used_is_told_in_a_condition_and_tried_again(in_s3: Cluster) -> None:
    in_s3.api.put(a_secret("s3", {"AWS_SECRET_ACCESS_KEY": "the-secret"}))

    with pytest.raises(InvalidCredentials):
        await in_s3.reconcile()

    ready = in_s3.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "InvalidCredentials")
    assert ready["message"].startswith("secret s3 lacks the key AWS_ACCESS_KEY_ID; add it, or annotate")
    model = in_s3.service["status"]["modelStatus"]
    assert (model["transitionStatus"], model["lastFailureInfo"]["reason"]) == (
        "BlockedByFailedLoad",
        "ModelLoadFailed",
    )


async def test_a_secret_that_comes_later_mends_the_service(in_s3: Cluster) -> None:
    secret = in_s3.api.objects.pop(path_of("Secret", NAMESPACE, "s3"))
    with pytest.raises(InvalidCredentials, match="secret s3, which service account default"):
        await in_s3.reconcile()
    in_s3.api.put(secret)
    in_s3.seconds.passed = 2.0

    await in_s3.reconcile()

    assert in_s3.condition("Ready")["reason"] == "CreatingPod"


async def test_a_secret_that_may_not_be_read_is_told(in_s3: Cluster) -> None:
    in_s3.api.failing["GET", path_of("Secret", NAMESPACE, "s3")] = Refused(403, "secrets is forbidden")

    with pytest.raises(Refused):
        await in_s3.reconcile()

    assert in_s3.condition("Ready")["message"] == "secrets is forbidden"


async def test_a_secret_that_cannot_be_read_for_a_moment_leaves_the_status_alone(in_s3: Cluster) -> None:
    await in_s3.reconcile()
    before = in_s3.service["status"]
    in_s3.api.failing["GET", path_of("Secret", NAMESPACE, "s3")] = KubeError(0, "no answer from the API server")
    in_s3.seconds.passed = 300.0

    with pytest.raises(KubeError):
        await in_s3.reconcile()
    assert in_s3.service["status"] == before

    with pytest.raises(KubeError):
        await in_s3.reconcile(failures=4)
    assert in_s3.condition("Ready")["reason"] == "ReconcileFailed"
    assert in_s3.service["status"]["url"] == before["url"]


async def test_a_broken_secret_leaves_what_runs_alone(in_s3: Cluster) -> None:
    await in_s3.reconcile()
    before = in_s3.child("Deployment")
    in_s3.api.put(a_secret("s3", {"AWS_SECRET_ACCESS_KEY": "the-secret"}))
    in_s3.seconds.passed = 300.0

    with pytest.raises(InvalidCredentials):
        await in_s3.reconcile()

    assert in_s3.child("Deployment") == before


async def test_the_administrators_certificates_come_to_the_namespace_before_the_pod_does() -> None:
    config = parse_config({"storageInitializer": '{"caBundleConfigMapName": "corporate"}'})
    service = a_service_body(model={"storageUri": "https://models.example.com/m.mar"})
    cluster = cluster_with(service, a_runtime_body(), config=config)
    cluster.api.put(a_config_map("corporate", "isvc-system", **{"cabundle.crt": "PEM"}))

    calls = await cluster.reconcile()

    assert calls.index("PATCH configmaps/global-ca-bundle") < calls.index(FIRST_CALLS[0])
    assert (cluster.api.get("ConfigMap", NAMESPACE, "global-ca-bundle") or {})["data"] == {"cabundle.crt": "PEM"}
    assert await cluster.reconcile() == []


# --- while the model is brought ---------------------------------------------------------------------------

PROGRESS = f"GET pods/{POD}/log"


async def test_progress_is_told_every_two_seconds_and_without_events(cluster: Cluster) -> None:
    await cluster.reconcile()
    cluster.roll_out(a_pod(initializer=an_initializer(running())), available=0, progressing="ReplicaSetUpdated")
    calls = {}
    for second, line in ((0, "1 %"), (1, "20 %"), (2, "42 % of 4.7 GiB"), (3, "60 %"), (4, "80 % of 4.7 GiB")):
        cluster.seconds.passed = second
        cluster.api.logs[f"{POD}/storage-initializer"] = f" {line}\n"
        calls[second] = await cluster.reconcile()

    assert calls == {0: [STATUS, "POST events"], 1: [], 2: [PROGRESS, STATUS], 3: [], 4: [PROGRESS, STATUS]}
    assert cluster.condition("Ready")["reason"] == "LoadingModel"
    assert cluster.condition("Ready")["message"] == (
        f"pod {POD}: the storage-initializer is copying the model: 80 % of 4.7 GiB (1 of 1 pods updated, 0 available)"
    )
    assert cluster.again == 2.0


async def test_progress_that_did_not_change_is_not_written(cluster: Cluster) -> None:
    await cluster.reconcile()
    cluster.roll_out(a_pod(initializer=an_initializer(running())), available=0, progressing="ReplicaSetUpdated")
    await cluster.reconcile()
    cluster.api.logs[f"{POD}/storage-initializer"] = "42 %"
    cluster.seconds.passed = 2
    await cluster.reconcile()
    cluster.seconds.passed = 4

    assert await cluster.reconcile() == [PROGRESS]


async def test_a_claim_that_another_node_has_is_told_once_the_pod_is_late(cluster: Cluster) -> None:
    await cluster.reconcile()
    cluster.roll_out(a_pod(), available=0, progressing="ReplicaSetUpdated")
    event = {
        "reason": "FailedAttachVolume",
        "message": "Multi-Attach error for volume pvc-1",
        "metadata": {"creationTimestamp": NOW},
        "involvedObject": {"uid": f"uid-of-{POD}"},
    }
    cluster.api.told.append(event)
    await cluster.reconcile()
    assert cluster.again == 5.0
    cluster.seconds.passed = cluster.again

    assert await cluster.reconcile() == ["GET events", STATUS, "POST events"]

    assert cluster.condition("Ready")["reason"] == "ClaimInUse"
    assert cluster.condition("Ready")["message"].startswith(
        f"pod {POD}: Multi-Attach error for volume pvc-1; the claim"
    )


# --- transformers --------------------------------------------------------------------------------------

TRANSFORMER = {"containers": [{"image": "t:1"}]}
FRONT = "torchserve-transformer-1-a"
FRONT_CALLS = ["PATCH deployments/torchserve-transformer", "PATCH services/torchserve-transformer"]


def a_front_pod(**fields: Any) -> dict[str, Any]:
    return a_pod(FRONT, component="transformer", phase="Running", **fields)


async def with_transformer() -> Cluster:
    """A service whose predictor serves, and whose transformer has just been added."""
    cluster = cluster_with(a_service_body(), a_runtime_body())
    await cluster.reconcile()
    cluster.roll_out(a_ready_pod())
    await cluster.settle()
    cluster.edit_service(generation=2, spec={"transformer": TRANSFORMER})
    return cluster


def led_to(cluster: Cluster) -> str:
    """The component that gets what comes for the service's own host name."""
    path = cluster.child("Ingress")["spec"]["rules"][0]["http"]["paths"][-1]
    return str(path["backend"]["service"]["name"])


async def test_a_transformer_gets_its_own_children_and_once_it_is_up_the_ingress() -> None:
    cluster = await with_transformer()

    assert await cluster.reconcile() == [*FRONT_CALLS, STATUS, "POST events"]
    assert led_to(cluster) == "torchserve-predictor"
    assert cluster.condition("PredictorReady")["status"] == "True"
    assert (cluster.condition("TransformerReady")["status"], cluster.condition("Ready")["status"]) == (
        "Unknown",
        "Unknown",
    )

    cluster.roll_out(component="transformer")
    assert await cluster.reconcile() == ["PATCH ingresses/torchserve", STATUS, "POST events"]
    assert (led_to(cluster), cluster.condition("Ready")["status"]) == ("torchserve-transformer", "True")


async def test_addresses_are_those_of_components_that_callers_are_led_to() -> None:
    cluster = await with_transformer()
    before = cluster.service["status"]

    await cluster.settle()
    held = cluster.service["status"]
    cluster.roll_out(component="transformer")
    await cluster.settle()
    after = cluster.service["status"]

    assert (held["address"], held["components"]) == (before["address"], before["components"])
    assert after["address"]["url"] == "http://torchserve-transformer.models.svc.cluster.local"
    assert sorted(after["components"]) == ["predictor", "transformer"]


async def test_callers_stay_with_a_predictor_that_loses_its_pod_for_a_moment_while_a_transformer_is_not_up() -> None:
    cluster = await with_transformer()
    await cluster.settle()

    cluster.roll_out(available=0)
    await cluster.settle()
    assert led_to(cluster) == "torchserve-predictor"

    cluster.roll_out()
    await cluster.settle()
    assert led_to(cluster) == "torchserve-predictor"


async def test_a_transformer_that_serves_goes_when_callers_have_had_time_to_follow() -> None:
    cluster = await with_transformer()
    await cluster.settle()
    cluster.roll_out(component="transformer")
    await cluster.settle()
    cluster.edit_service(generation=3)

    assert (await cluster.reconcile())[0] == "PATCH ingresses/torchserve"
    assert led_to(cluster) == "torchserve-predictor"
    assert (await cluster.reconcile(), cluster.again) == ([], GRACE)
    cluster.seconds.passed += GRACE
    assert sorted(await cluster.reconcile()) == [call.replace("PATCH", "DELETE") for call in FRONT_CALLS]
    assert (await cluster.reconcile(), cluster.again) == ([], None)


async def test_a_transformer_that_never_served_takes_its_children_with_it() -> None:
    cluster = await with_transformer()
    await cluster.settle()
    cluster.edit_service(generation=3)

    calls = await cluster.reconcile()

    assert sorted(calls[:2]) == ["DELETE deployments/torchserve-transformer", "DELETE services/torchserve-transformer"]
    types = [item["type"] for item in cluster.service["status"]["conditions"]]
    assert "TransformerReady" not in types


async def test_a_crash_of_the_transformer_is_not_the_predictors() -> None:
    cluster = await with_transformer()
    await cluster.settle()
    cluster.api.logs[f"{FRONT}/kserve-container"] = "unrecognized arguments: --predictor_host"
    cluster.api.put(a_front_pod(containers=[a_container(state=ended(2, "usage"))]))

    await cluster.reconcile()

    assert cluster.condition("PredictorReady")["status"] == "True"
    message = cluster.condition("TransformerReady")["message"]
    assert message.startswith(f"pod {FRONT}, container kserve-container ended with exit code 2: usage")
    assert message.endswith("unrecognized arguments: --predictor_host")


async def test_a_transformer_that_stays_not_ready_is_told_with_its_last_words_and_no_call_is_made_in_between() -> None:
    cluster = await with_transformer()
    await cluster.settle()
    cluster.api.put(a_front_pod(containers=[a_container()]))
    await cluster.settle()
    cluster.api.logs[f"{FRONT}/kserve-container"] = "the predictor at http://nowhere is not ready"
    log = f"GET pods/{FRONT}/log"

    assert await cluster.reconcile() == []
    cluster.seconds.passed = READY_LATE
    assert await cluster.reconcile() == [log, STATUS]
    assert await cluster.reconcile() == []
    cluster.seconds.passed += LOG_EVERY
    assert await cluster.reconcile() == [log]

    assert cluster.condition("Ready")["message"].endswith(
        "Last log lines:\nthe predictor at http://nowhere is not ready"
    )
