"""Replaces the pods of one service by new ones, without a request to a pod that is ending.

KServe's pods end without waiting until every proxy has noticed. So they get no traffic any more before they end:

1. prepare    the Deployment pauses
2. (the operator adopts the Deployment; it renders all new pods first, because of the annotation)
3. start      the new pods start beside the old ones, and do not count as available for a while
4. narrow     the Service selects the new pods only; every proxy gets time to notice
5. release    the new pods count as available, so the old ones end
6. restore    the Service selects all pods again, and the marks of the steps are removed

Each step is visible on the objects, so that the next run goes on where one was stopped. Until step 5 the Deployment has
all its old pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from isvc.migrate.errors import MigrationFailed
from isvc.migrate.names import HASH, REVISION, SLICE_OF
from isvc.migrate.objects import named, path_to
from isvc.migrate.session import Session, Step, StepTaken
from isvc_operator.api.names import ANNOTATION_HANDOVER, ANNOTATION_RENDERED, READY
from isvc_operator.manifests import Manifest, annotations_of, condition_of, controller_of, find, labels_of, name_of
from isvc_operator.observe.conditions import phase_of
from isvc_operator.telemetry.snapshot import Phase

# Seconds; a Deployment with a progressDeadlineSeconds of 600 may have no more.
HOLD: Final = 590
_NOTICE: Final = 5.0  # seconds for every proxy to notice that pods get no requests any more


async def prepare(session: Session, service: Manifest, children: Iterable[Manifest]) -> None:
    """Pause the Deployments that KServe has made, and hand the status of a service that is ready over."""
    new = [item for item in deployments_in(children) if not is_adopted(item) and not is_handed_over(item)]
    for deployment in new:
        marks = {"annotations": {ANNOTATION_HANDOVER: "true"}}
        await session.objects.merge(path_to(deployment), {"metadata": marks, "spec": {"paused": True}})
    if new and is_ready(service):
        # KServe writes the generation of the Deployment here.
        status = {"observedGeneration": service["metadata"]["generation"]}
        await session.objects.merge(f"{path_to(service)}/status", {"status": status})


async def hand_over(session: Session, service: Manifest, children: Iterable[Manifest]) -> None:
    """Take the steps from the third one on, for every Deployment of the service; raises MigrationFailed."""
    name = named(service)
    everything = list(children)
    started = session.clock()

    async def ready() -> bool:
        return is_settled(await session.objects.get(path_to(service)) or {})

    try:
        for deployment in deployments_in(everything):
            await _replace_pods(session, deployment, find(everything, "Service", name_of(deployment)))
        await session.until("the service is not Ready", ready)
    except MigrationFailed as error:
        raise MigrationFailed(
            f"{name}: {error}. Its old pods still serve. {await _why(session, service)}Correct the cause and run this "
            "command again, or go back with: isvc migrate back"
        ) from error
    message = f"{name} is changed over, after {session.clock() - started:.0f} s"
    session.report(StepTaken(Step.SERVICE_CHANGED_OVER, message, [name]))


async def abandon(session: Session, children: Iterable[Manifest]) -> None:
    everything = list(children)
    for deployment in deployments_in(everything):
        if is_handed_over(deployment):
            await session.objects.merge(path_to(deployment), {"spec": {"paused": None, "minReadySeconds": None}})
            await _restore(session, deployment, find(everything, "Service", name_of(deployment)))


# --- what the marks say ---------------------------------------------------------------------------------


def deployments_in(children: Iterable[Manifest]) -> list[Manifest]:
    return [item for item in children if item["kind"] == "Deployment"]


def is_adopted(deployment: Manifest) -> bool:
    """Whether the operator has applied what it renders."""
    return ANNOTATION_RENDERED in annotations_of(deployment)


def is_handed_over(deployment: Manifest) -> bool:
    """Whether the Deployment is between the first and the last step."""
    return ANNOTATION_HANDOVER in annotations_of(deployment)


def is_complete(deployment: Manifest) -> bool:
    """Whether all pods are of the newest template, and available."""
    status, wanted = deployment.get("status", {}), deployment["spec"].get("replicas", 1)
    counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
    return _is_observed(deployment) and counts == [wanted] * 3


def is_ready(service: Manifest) -> bool:
    return condition_of(service, READY).get("status") == "True"


def is_settled(service: Manifest) -> bool:
    """Whether it is ready, or stopped, so that no pod of it is awaited."""
    return is_ready(service) or phase_of(service) is Phase.STOPPED


def _is_observed(deployment: Manifest) -> bool:
    observed: int = deployment.get("status", {}).get("observedGeneration", 0)
    return observed >= int(deployment["metadata"]["generation"])


# --- the steps of one Deployment ------------------------------------------------------------------------


async def _replace_pods(session: Session, deployment: Manifest, service: Manifest | None) -> None:
    where, place = f"Deployment {name_of(deployment)}", path_to(deployment)

    async def adopted() -> Manifest | None:
        found = await session.objects.get(place)
        return found if found and is_adopted(found) else None

    async def complete() -> bool:
        found = await session.objects.get(place)
        return found is not None and is_complete(found)

    found = await session.until(f"{where} is not what the operator renders", adopted)
    if not is_handed_over(found):
        return
    if found["spec"].get("paused"):
        # Not before: until then the old pods are those of the newest template, to which this applies.
        await session.objects.merge(place, {"spec": {"paused": None, "minReadySeconds": HOLD}})
    newest = await session.until(f"{where}: the new pods are not ready", lambda: _ready_replica_set(session, place))
    if service is not None and found["spec"].get("replicas", 1):
        await _narrow(session, service, newest)
    await session.objects.merge(place, {"spec": {"minReadySeconds": None}})
    await session.until(f"{where}: its old pods do not end", complete)
    await _restore(session, found, service)


async def _ready_replica_set(session: Session, place: str) -> Manifest | None:
    """Return the ReplicaSet of the newest template, once all its pods are ready."""
    deployment = await session.objects.get(place)
    if deployment is None or deployment["spec"].get("paused") or not _is_observed(deployment):
        return None
    namespace, uid = deployment["metadata"]["namespace"], deployment["metadata"]["uid"]
    wanted, revision = deployment["spec"].get("replicas", 1), annotations_of(deployment).get(REVISION)
    updated = deployment["status"].get("updatedReplicas", 0)
    for item in await session.objects.items("apps/v1", "replicasets", namespace):
        if controller_of(item).get("uid") == uid and annotations_of(item).get(REVISION) == revision:
            return item if min(updated, item["status"].get("readyReplicas", 0)) >= wanted else None
    return None


async def _narrow(session: Session, service: Manifest, newest: Manifest) -> None:
    """Let the Service select the pods of one ReplicaSet only."""
    namespace, name = service["metadata"]["namespace"], name_of(service)
    selector = {HASH: labels_of(newest)[HASH]}
    await session.objects.merge(path_to(service), {"spec": {"selector": selector}})

    async def only_new() -> bool:
        labels = f"{SLICE_OF}={name}"
        slices = await session.objects.items("discovery.k8s.io/v1", "endpointslices", namespace, labels=labels)
        pods = [_target(endpoint) for item in slices for endpoint in item.get("endpoints") or () if _serves(endpoint)]
        return bool(pods) and all(pod.startswith(f"{name_of(newest)}-") for pod in pods)

    await session.until(f"Service {name} still has old pods", only_new)
    await session.sleep(_NOTICE)


async def _restore(session: Session, deployment: Manifest, service: Manifest | None) -> None:
    if service is not None:
        await session.objects.merge(path_to(service), {"spec": {"selector": {HASH: None}}})
    await session.objects.merge(path_to(deployment), {"metadata": {"annotations": {ANNOTATION_HANDOVER: None}}})


async def _why(session: Session, service: Manifest) -> str:
    condition = condition_of(await session.objects.get(path_to(service)) or {}, READY)
    text = condition.get("message") or condition.get("reason") or ""
    return f"Its status says: {' '.join(text.split())}. " if text else ""


def _target(endpoint: Manifest) -> str:
    return str((endpoint.get("targetRef") or {}).get("name", ""))


def _serves(endpoint: Manifest) -> bool:
    return (endpoint.get("conditions") or {}).get("ready") is not False
