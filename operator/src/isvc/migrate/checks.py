"""Compares what KServe has made of a service with what would be rendered, and says what the change means. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from isvc.migrate.plan import PlanLine, blocking, ok, warning
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.kinds import AUTOSCALERS
from isvc_operator.api.names import ANNOTATION_RENDERED, CONTAINER_INITIALIZER
from isvc_operator.manifests import Container, Manifest, annotations_of, find, name_of
from isvc_operator.plan.kept_pods import canary_requests
from isvc_operator.resolve.service import Resolved

_IN_PLACE: Final = ("", "Standard", "RawDeployment")
_MODE: Final = "serving.kserve.io/deploymentMode"
_KSERVES_INITIALIZER: Final = re.compile(r"(^|/)kserve/storage-initializer([:@]|$)")
_AGENT_PORT: Final = 9081  # of KServe's logger and batcher, which pass requests on to the server beside them


@dataclass(frozen=True)
class ServiceChange:
    """A service before and after: ``before`` are the children that KServe's controller has made.

    ``restricted``: its namespace enforces the Pod Security Standard of that name.
    """

    body: Manifest
    before: Sequence[Manifest]
    after: Sequence[Manifest]
    resolved: Resolved
    ignored: Sequence[str] = ()
    restricted: bool = False


def mode_refused(body: Manifest) -> PlanLine | None:
    """Return why a service cannot be changed over in place, if its pods are not those of a Deployment of KServe."""
    status = body.get("status") or {}
    mode = status.get("deploymentMode") or (body["metadata"].get("annotations") or {}).get(_MODE, "")
    if mode in _IN_PLACE:
        return None
    return blocking(
        f"deployment mode {mode}: its pods cannot be taken over; create it again under another name in Standard mode, "
        "move its clients, and delete it"
    )


def canary_refused(service: InferenceService, before: Iterable[Manifest]) -> PlanLine | None:
    """Return why a service cannot be changed over, if it requests a canary: its pods of KServe would be kept."""
    requested = canary_requests(service.spec)
    if not requested or all(ANNOTATION_RENDERED in annotations_of(item) for item in _of_kind(before, "Deployment")):
        return None
    name, namespace = service.metadata.name, service.metadata.namespace
    patch = {"spec": {"canary": None} | {kind: {"canaryTrafficPercent": None} for kind in requested}}
    return blocking(
        f"{' and '.join(requested.values())} requests a canary: KServe's pods would be kept, and get no model any more "
        "when they start anew, as KServe's webhooks are removed; finish the change or undo it, then run: kubectl patch "
        f"inferenceservice {name} -n {namespace} --type merge -p '{json.dumps(patch)}'"
    )


def check_children(change: ServiceChange) -> tuple[PlanLine, ...]:
    """Return what changes, in the order in which one reads it."""
    return (
        *_runtime(change),
        *(line for pair in _deployments(change) for line in _of_deployment(*pair, change)),
        *_hosts(change),
        *_ports(change),
        *_other_children(change),
        *(warning(f"no effect: {part}") for part in change.ignored),
    )


def _runtime(change: ServiceChange) -> Iterator[PlanLine]:
    status = change.body.get("status") or {}
    before = status.get("clusterServingRuntimeName") or status.get("servingRuntimeName")
    chosen = change.resolved.chosen
    after = chosen.runtime.metadata.name if chosen else None
    if before and before != after:
        yield warning(
            f"runtime: {before} → {after or 'its own containers'}; set spec.predictor.model.runtime to keep it"
        )
    elif after:
        yield ok(f"runtime: {after}")


# --- Deployments ----------------------------------------------------------------------------------------


def _deployments(change: ServiceChange) -> Iterator[tuple[Manifest | None, Manifest]]:
    for after in _of_kind(change.after, "Deployment"):
        yield find(change.before, "Deployment", name_of(after)), after


def _of_deployment(before: Manifest | None, after: Manifest, change: ServiceChange) -> Iterator[PlanLine]:
    name = name_of(after)
    if before is None:
        yield warning(f"Deployment {name} does not exist yet: KServe has not made it")
        return
    yield _size(before, after)
    known = {item["name"]: item for item in _containers(before)}
    for container in _containers(after):
        old = known.get(container["name"])
        yield from _image(name, old, container)
        yield from _user(name, old, container, pods=(_pod(before), _pod(after)), restricted=change.restricted)
    for gone in known.keys() - {item["name"] for item in _containers(after)}:
        yield warning(f"Deployment {name}: container {gone} is not rendered")
    yield from _initializer(name, after)


def _size(before: Manifest, after: Manifest) -> PlanLine:
    name, live, wanted = name_of(after), before["spec"].get("replicas", 1), after["spec"].get("replicas")
    if wanted is None or wanted == live:
        return ok(f"Deployment {name}: its size stays {live}")
    if wanted > live:
        return ok(f"Deployment {name}: its size becomes {wanted}, from {live}")
    return blocking(
        f"Deployment {name}: its size becomes {wanted}, from {live}; set minReplicas to {live} until the load is lower"
    )


def _image(deployment: str, before: Container | None, after: Container) -> Iterator[PlanLine]:
    old, new = (before or {}).get("image"), after.get("image")
    if before is None:
        yield ok(f"Deployment {deployment}: container {after['name']} is added, image {new}")
    elif old != new:
        yield warning(f"Deployment {deployment}: image of {after['name']}: {old} → {new}")
    else:
        yield ok(f"Deployment {deployment}: image of {after['name']}: {new}")


def _user(
    deployment: str, before: Container | None, after: Container, *, pods: tuple[Any, Any], restricted: bool
) -> Iterator[PlanLine]:
    where = f"Deployment {deployment}, container {after['name']}"
    user, non_root = (_effective(after, pods[1], field) for field in ("runAsUser", "runAsNonRoot"))
    fix = f"set securityContext.runAsUser of {after['name']} to the user of its image's files"
    if restricted and (user == 0 or non_root is not True):
        yield blocking(f"{where}: runs as root, which its namespace refuses (Pod Security restricted); {fix}")
    elif non_root and user is None and not (before and _effective(before, pods[0], "runAsNonRoot")):
        yield warning(f"{where}: must not run as root from now on; if its image does, it does not start: {fix}")
    if _read_only(after) and not (before and _read_only(before)):
        yield warning(f"{where}: its root file system becomes read-only; mount an emptyDir where it writes")


def _initializer(deployment: str, after: Manifest) -> Iterator[PlanLine]:
    """Check the container that copies the model: a ClusterStorageContainer or a ConfigMap may name KServe's image."""
    for container in _pod(after).get("initContainers", ()):
        if container["name"] != CONTAINER_INITIALIZER or not _KSERVES_INITIALIZER.search(container.get("image", "")):
            continue
        where = f"Deployment {deployment}: {container['image']}"
        fix = "delete the ClusterStorageContainer, or the image in inferenceservice-config, that names it"
        if any("pvc://" in text for text in container.get("args", ())):
            yield blocking(f"{where} cannot copy from pvc://; {fix}")
        elif _read_only(container):
            yield warning(f"{where} may not start with a read-only root file system; {fix}")


# --- what leads to the pods --------------------------------------------------------------------------------


def _hosts(change: ServiceChange) -> Iterator[PlanLine]:
    before, after = _hosts_of(change.before), _hosts_of(change.after)
    for host in sorted(before - after):
        yield blocking(f"host {host} is not served any more; let domainTemplate or additionalDomainTemplates give it")
    if added := sorted(after - before):
        yield ok(f"hosts added: {', '.join(added)}")
    if kept := sorted(before & after):
        yield ok(f"hosts kept: {', '.join(kept)}")
    old, new = (_ingress_class(children) for children in (change.before, change.after))
    if old and old != new:
        yield blocking(f"ingressClassName {old} → {new or 'none'}; set it in the operator's inferenceservice-config")


def _hosts_of(children: Iterable[Manifest]) -> set[str]:
    hosts: set[str] = set()
    for child in children:
        spec = child.get("spec", {})
        if child["kind"] == "Ingress":
            hosts |= {rule["host"] for rule in spec.get("rules", ()) if rule.get("host")}
        elif child["kind"] == "HTTPRoute":
            hosts |= set(spec.get("hostnames", ()))
        elif child["kind"] == "VirtualService":
            hosts |= {host for host in spec.get("hosts", ()) if not host.endswith(".svc.cluster.local")}
    return hosts


def _ingress_class(children: Iterable[Manifest]) -> str | None:
    return next((item["spec"].get("ingressClassName") for item in children if item["kind"] == "Ingress"), None)


def _ports(change: ServiceChange) -> Iterator[PlanLine]:
    """Check the port of the pods: until the last old pod ends, both old and new ones receive requests there."""
    for after in _of_kind(change.after, "Service"):
        before = find(change.before, "Service", name_of(after))
        old, new = (_target(item) for item in (before, after))
        if old in (None, new):
            continue
        text = f"Service {name_of(after)}: target port {old} → {new}"
        if old == _AGENT_PORT:
            yield warning(f"{text}: requests go to the server itself, without KServe's agent")
        else:
            yield blocking(f"{text}: pods of KServe do not listen there; give the runtime's container port {old}")


def _target(service: Manifest | None) -> int | str | None:
    ports = service["spec"].get("ports", ()) if service else ()
    return ports[0].get("targetPort") if ports else None


def _other_children(change: ServiceChange) -> Iterator[PlanLine]:
    for child in change.before:
        kind, name = child["kind"], name_of(child)
        if after := find(change.after, kind, name):
            if kind in AUTOSCALERS:
                yield _autoscaler(child, after)
        elif kind == "VirtualService":
            yield warning(f"{kind} {name} stays as KServe has made it; delete it when nothing uses it any more")
        elif kind == "HTTPRoute":
            yield blocking(f"{kind} {name} is deleted; set enableGatewayApi in the operator's inferenceservice-config")
        elif kind == "HorizontalPodAutoscaler" and child["spec"].get("minReplicas", 1) == child["spec"]["maxReplicas"]:
            yield ok(f"{kind} {name} is deleted: it keeps the size at {child['spec']['maxReplicas']}, as it is")
        elif kind in AUTOSCALERS:
            yield warning(f"{kind} {name} is deleted: this service is not scaled automatically from then on")
        else:
            yield warning(f"{kind} {name} is deleted: it is not rendered")


def _autoscaler(before: Manifest, after: Manifest) -> PlanLine:
    place, old, new = f"{before['kind']} {name_of(before)}", _targets(before), _targets(after)
    if old == new:
        return ok(f"{place}: adopted as it is")
    return warning(f"{place}: its targets become {new}, from {old}; set scaleMetric and scaleTarget to keep them")


def _targets(autoscaler: Manifest) -> str:
    """Return the targets of a HorizontalPodAutoscaler in words; empty for a ScaledObject, which has triggers."""
    return ", ".join(
        f"{metric['resource']['name']} {_target_of(metric['resource']['target'])}"
        if "resource" in metric
        else metric["type"]
        for metric in autoscaler["spec"].get("metrics", ())
    )


def _target_of(target: Mapping[str, Any]) -> str:
    percent = target.get("averageUtilization")
    return str(target.get("averageValue")) if percent is None else f"{percent} %"


# --- fields of manifests -----------------------------------------------------------------------------------


def _of_kind(children: Iterable[Manifest], kind: str) -> Iterator[Manifest]:
    return (item for item in children if item["kind"] == kind)


def _pod(deployment: Manifest) -> Mapping[str, Any]:
    pod: Mapping[str, Any] = deployment["spec"]["template"]["spec"]
    return pod


def _containers(deployment: Manifest) -> Sequence[Container]:
    containers: Sequence[Container] = _pod(deployment)["containers"]
    return containers


def _effective(container: Container, pod: Mapping[str, Any], field: str) -> Any:
    own, shared = (item.get("securityContext") or {} for item in (container, pod))
    return own.get(field, shared.get(field))


def _read_only(container: Container) -> bool:
    return bool((container.get("securityContext") or {}).get("readOnlyRootFilesystem"))
