"""KServe's manager: its controllers are paused while its webhooks serve, then both are put away, or back in place.

The controllers wait for a lease, the webhooks do not. Whoever holds the lease stops the controllers only: pods that
KServe's Deployments start meanwhile still get their model from its webhook.
"""

from __future__ import annotations

from typing import Any, Final

from isvc.migrate import kept
from isvc.migrate.errors import MigrationRefused
from isvc.migrate.names import (
    ANNOTATION_LEADERS,
    KSERVE_LEASE,
    KSERVE_MANAGER,
    KSERVE_NAMESPACE,
    KSERVE_WEBHOOK_SERVICE,
    MIGRATION,
)
from isvc.migrate.objects import path
from isvc.migrate.plan import electing_containers
from isvc.migrate.session import Session, Step, StepTaken
from isvc_operator.kube.requests import path_of
from isvc_operator.manifests import Manifest, annotations_of, name_of

_MANAGER: Final = path_of("Deployment", KSERVE_NAMESPACE, KSERVE_MANAGER)
_LEASES: Final = path("coordination.k8s.io/v1", "leases", KSERVE_NAMESPACE)
_LEASE: Final = f"{_LEASES}/{KSERVE_LEASE}"
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_WEBHOOKS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_A_YEAR: Final = 31_536_000  # seconds; a lease that is not renewed is held as long
_A_MOMENT: Final = 1  # seconds


async def pause_controllers(session: Session) -> None:
    """Take the lease of KServe's controllers, and wait until the manager that had it has ended."""
    objects = session.objects
    manager = await _manager(session)
    lease = await objects.get(_LEASE)
    if lease is None or lease["spec"].get("holderIdentity") != MIGRATION:
        leaders = " ".join(await _container_ids(session, manager))
        spec = {
            "holderIdentity": MIGRATION,
            "leaseDurationSeconds": _A_YEAR,
            "acquireTime": session.now(),
            "renewTime": session.now(),
        }
        body: dict[str, Any] = {"metadata": {"annotations": {ANNOTATION_LEADERS: leaders}}, "spec": spec}
        if lease is None:
            names = {"name": KSERVE_LEASE, "namespace": KSERVE_NAMESPACE}
            whole = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **body}
            await objects.create(_LEASES, {**whole, "metadata": {**body["metadata"], **names}})
        else:
            await objects.merge(_LEASE, body)
    await session.until("KServe's manager still runs with its controllers", lambda: _has_paused(session, manager))
    session.report(StepTaken(Step.KSERVE_PAUSED, "KServe's controllers are paused; its webhooks still serve"))


async def resume_controllers(session: Session) -> None:
    spec = {"holderIdentity": "", "leaseDurationSeconds": _A_MOMENT}
    if await session.objects.get(_LEASE):
        await session.objects.merge(_LEASE, {"metadata": {"annotations": {ANNOTATION_LEADERS: None}}, "spec": spec})
    session.report(StepTaken(Step.KSERVE_RESUMED, "KServe's controllers run again"))


async def put_away(session: Session) -> None:
    """Keep and delete the webhook configurations, and scale the manager to zero."""
    objects = session.objects
    manager = await _manager(session)
    found = {
        path(_ADMISSION, plural, "", name_of(item)): item
        for plural in _WEBHOOKS
        for item in await objects.items(_ADMISSION, plural)
        if _is_kserves(item)
    }
    await kept.add(objects, kept.WEBHOOKS, found)
    for place in found:
        await objects.delete(place)
    if replicas := manager["spec"].get("replicas", 1):
        await kept.add(objects, kept.REPLICAS, {KSERVE_MANAGER: replicas})
        await objects.merge(_MANAGER, {"spec": {"replicas": 0}})
    message = f"KServe's manager is scaled to zero, and its {len(found)} webhook configurations are kept"
    session.report(StepTaken(Step.KSERVE_STOPPED, message))


async def put_back(session: Session) -> None:
    """Start the manager, then restore its webhook configurations, which refuse pods while no manager answers."""
    objects = session.objects
    manager = await _manager(session)
    if not manager["spec"].get("replicas", 1):
        replicas = (await kept.read(objects, kept.REPLICAS)).get(KSERVE_MANAGER, 1)
        await objects.merge(_MANAGER, {"spec": {"replicas": replicas}})
    await session.until("KServe's manager is not available", lambda: _is_available(session))
    webhooks = await kept.read(objects, kept.WEBHOOKS)
    for place, item in webhooks.items():
        if await objects.get(place) is None:
            await objects.create(place.rpartition("/")[0], item)
    for key in (kept.WEBHOOKS, kept.REPLICAS):
        await kept.clear(objects, key)
    message = f"KServe's manager runs, and {len(webhooks)} webhook configurations are restored"
    session.report(StepTaken(Step.KSERVE_STARTED, message))


async def _manager(session: Session) -> Manifest:
    manager = await session.objects.get(_MANAGER)
    if manager is None:
        raise MigrationRefused(f"there is no Deployment {KSERVE_MANAGER} in namespace {KSERVE_NAMESPACE}")
    if not electing_containers(manager):
        raise MigrationRefused(f"Deployment {KSERVE_MANAGER} runs without --leader-elect; add it to its arguments")
    return manager


async def _has_paused(session: Session, manager: Manifest) -> bool:
    """Whether the containers that may have held the lease have ended, and others answer webhooks."""
    lease = await session.objects.get(_LEASE) or {"metadata": {}}
    leaders = annotations_of(lease).get(ANNOTATION_LEADERS, "").split()
    if set(leaders) & set(await _container_ids(session, manager)):
        return False
    return not manager["spec"].get("replicas", 1) or await _is_available(session)


async def _container_ids(session: Session, manager: Manifest) -> list[str]:
    """Return the running containers that take part in the election, and so end when they lose it."""
    labels = ",".join(f"{key}={value}" for key, value in manager["spec"]["selector"]["matchLabels"].items())
    pods = await session.objects.items("v1", "pods", KSERVE_NAMESPACE, labels=labels)
    names = electing_containers(manager)
    return [
        container["containerID"]
        for pod in pods
        for container in pod.get("status", {}).get("containerStatuses", ())
        if container["name"] in names and container.get("containerID") and "running" in container["state"]
    ]


async def _is_available(session: Session) -> bool:
    manager = await session.objects.get(_MANAGER) or {}
    status, wanted = manager.get("status", {}), manager.get("spec", {}).get("replicas", 1)
    observed = status.get("observedGeneration", 0) >= manager.get("metadata", {}).get("generation", 0)
    return bool(observed and wanted and status.get("availableReplicas", 0) >= wanted)


def _is_kserves(configuration: Manifest) -> bool:
    services = [item["clientConfig"].get("service") or {} for item in configuration.get("webhooks", ())]
    return any(
        (item.get("namespace"), item.get("name")) == (KSERVE_NAMESPACE, KSERVE_WEBHOOK_SERVICE) for item in services
    )
