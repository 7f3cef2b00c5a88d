"""Checks what was read of a cluster. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from isvc.crds import CustomResource, build_crd
from isvc.migrate.names import KSERVE_NAMESPACE
from isvc_operator.config import IngressConfig
from isvc_operator.limits import NAMED
from isvc_operator.manifests import Manifest, annotations_of, condition_of
from isvc_operator.plan.diff import matches
from isvc_operator.text import one_line

_OLDEST = 30  # minor version of Kubernetes
_DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"


class Verdict(StrEnum):
    """What a check means, from good to bad; ``unknown``: the caller may not read what it takes."""

    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Check:
    """What was looked at, and what was found; the message of all but OK ends with what to do."""

    subject: str
    verdict: Verdict
    message: str


@dataclass(frozen=True)
class Right:
    """What somebody may want to do with services, and the command that needs it."""

    verb: str
    group: str
    resource: str
    for_what: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


def worst(checks: Iterable[Check]) -> Verdict:
    """Return the worst verdict."""
    order = list(Verdict)
    return max((check.verdict for check in checks), key=order.index, default=Verdict.OK)


def minor_version(version: Mapping[str, Any]) -> int:
    """Return the minor version of the API server, which some write as ``30+``; 0 if it is unknown."""
    minor = re.match(r"\d+", str(version.get("minor", "")))
    return int(minor[0]) if minor else 0


def check_storage_secret(name: str, namespace: str, found: Manifest | None) -> Check:
    """Check the secret with the places that ``storage.key`` names; most services need none."""
    subject = "storage secret"
    if found is None:
        message = f"{name} does not exist in namespace {namespace}; only services with `storage.key` need it"
        return Check(subject, Verdict.OK, message)
    keys = [one_line(key) for key in sorted(found.get("data") or {})]
    listed = ", ".join(keys[:NAMED]) + (f" and {len(keys) - NAMED} more" if len(keys) > NAMED else "")
    return Check(subject, Verdict.OK, f"{name} has the keys {listed}" if keys else f"{name} is empty")


def check_version(version: Mapping[str, Any], server: str) -> Check:
    """Check the version of the API server."""
    name = str(version.get("gitVersion", "of an unknown version"))
    if version.get("major") == "1" and minor_version(version) >= _OLDEST:
        return Check("cluster", Verdict.OK, f"Kubernetes {name} at {server}")
    return Check("cluster", Verdict.PROBLEM, f"Kubernetes {name} is older than 1.{_OLDEST}; upgrade the cluster")


def check_crd(resource: CustomResource, found: Manifest | None, version: str) -> Check:
    """Check an installed CRD beside the one of this version."""
    subject = f"crd {resource.name}"
    if found is None:
        return Check(subject, Verdict.PROBLEM, f"it is not installed; apply the crds of isvc-operator {version}")
    established = condition_of(found, "Established")
    if established.get("status") != "True":
        why = established.get("message") or "the API server has not accepted it"
        return Check(subject, Verdict.PROBLEM, f"it is not served: {why}; remove what conflicts with it")
    wanted = build_crd(resource)["spec"]["versions"][0]
    versions = found.get("spec", {}).get("versions") or ()
    served = next((item for item in versions if item["name"] == wanted["name"] and item.get("served")), None)
    if served is None:
        return Check(subject, Verdict.PROBLEM, f"version {wanted['name']} is not served; apply the crds of {version}")
    if not matches(served.get("schema"), wanted["schema"]):
        return Check(
            subject,
            Verdict.WARNING,
            f"it is not that of isvc {version}; apply the crds of the operator's version, or use the isvc of that one",
        )
    return Check(subject, Verdict.OK, f"installed, as in {version}")


def check_operator(found: Sequence[Manifest], version: str) -> Check:
    """Check the Deployments of the operator."""
    if not found:
        return Check("operator", Verdict.PROBLEM, "no Deployment isvc-operator exists; install it (docs/install.md)")
    if len(found) > 1:
        places = ", ".join(sorted(item["metadata"]["namespace"] for item in found))
        return Check(
            "operator",
            Verdict.WARNING,
            f"it runs in {len(found)} namespaces ({places}); make sure that they watch different ones",
        )
    [deployment] = found
    name = f"{deployment['metadata']['namespace']}/{deployment['metadata']['name']}"
    status, wanted = deployment.get("status", {}), deployment.get("spec", {}).get("replicas", 1)
    ready = status.get("readyReplicas", 0)
    images = [item["image"] for item in deployment["spec"]["template"]["spec"]["containers"]]
    if not wanted:
        return Check("operator", Verdict.PROBLEM, f"{name} has 0 replicas; scale it to 1")
    if not ready:
        conditions = (item for item in status.get("conditions") or () if item.get("status") == "False")
        why = next((item.get("message") for item in conditions), "its pods are not ready")
        log = f"kubectl -n {deployment['metadata']['namespace']} logs deployment/{deployment['metadata']['name']}"
        return Check("operator", Verdict.PROBLEM, f"{name} is not ready: {why}; see {log}")
    if not any(image.partition("@")[0].endswith(f":{version}") for image in images):
        return Check(
            "operator", Verdict.OK, f"{name} is ready ({ready} of {wanted}): {images[0]}; this isvc is {version}"
        )
    return Check("operator", Verdict.OK, f"{name} is ready ({ready} of {wanted}): {images[0]}")


def check_kserve(manager: Manifest, *, paused: bool) -> Check:
    """Check KServe's manager, which reconciles the services that this operator does.

    ``paused``: ``isvc migrate`` holds the lease that its controllers wait for.
    """
    namespace = manager["metadata"]["namespace"]
    name = f"{namespace}/{manager['metadata']['name']}"
    if not manager.get("spec", {}).get("replicas", 1):
        return Check("kserve", Verdict.OK, f"{name} has 0 replicas")
    if paused:
        return Check("kserve", Verdict.OK, f"isvc migrate has paused the controllers of {name}")
    in_place = namespace == KSERVE_NAMESPACE
    fix = "change over with isvc migrate" if in_place else "remove one of the two, and keep the CRDs"
    message = f"{name} runs, and changes the same services as isvc-operator; {fix} (docs/migrate-from-kserve.md)"
    return Check("kserve", Verdict.PROBLEM, message)


def check_rights(missing: Sequence[Right], namespace: str) -> Check:
    """Check what the caller may do with services of a namespace."""
    if not missing:
        return Check("rights", Verdict.OK, f"you may use services and their pods in namespace {namespace}")
    listed = "; ".join(f"{right} ({right.for_what})" for right in missing)
    return Check(
        "rights", Verdict.WARNING, f"you may not in namespace {namespace}: {listed}; ask who administers the cluster"
    )


def check_ingress_classes(config: IngressConfig, classes: Sequence[Manifest]) -> Check:
    """Check whether a controller takes the Ingresses that are rendered."""
    names = {item["metadata"]["name"]: item.get("spec", {}).get("controller", "?") for item in classes}
    wanted = config.ingress_class_name
    if not names:
        return Check("ingress", Verdict.PROBLEM, "there is no IngressClass; install an ingress controller")
    if wanted and wanted not in names:
        listed = ", ".join(sorted(names))
        message = f"ingressClassName is {wanted}, and there is only {listed}; change it in inferenceservice-config"
        return Check("ingress", Verdict.PROBLEM, message)
    if wanted:
        return Check("ingress", Verdict.OK, f"IngressClass {wanted} of {names[wanted]}")
    for item in classes:
        if annotations_of(item).get(_DEFAULT_CLASS) == "true":
            name = item["metadata"]["name"]
            return Check("ingress", Verdict.OK, f"the default IngressClass is {name} of {names[name]}")
    listed = ", ".join(sorted(names))
    return Check(
        "ingress",
        Verdict.WARNING,
        f"no IngressClass is the default ({listed}); set ingressClassName in inferenceservice-config to one of them",
    )


def check_gateway(config: IngressConfig, *, installed: bool, gateway: Manifest | None) -> Check:
    """Check the Gateway that HTTPRoutes are attached to."""
    name = config.kserve_ingress_gateway
    if not installed:
        return Check("ingress", Verdict.PROBLEM, "the Gateway API is not installed; install it, v1.1 or newer")
    if gateway is None:
        message = f"there is no Gateway {name}; create it, or change kserveIngressGateway in inferenceservice-config"
        return Check("ingress", Verdict.PROBLEM, message)
    for kind in ("Accepted", "Programmed"):
        condition = condition_of(gateway, kind)
        if condition.get("status") != "True":
            why = condition.get("message") or "no controller has reported on it"
            return Check("ingress", Verdict.PROBLEM, f"Gateway {name} is not {kind}: {why}; see its controller's log")
    return Check("ingress", Verdict.OK, f"Gateway {name} is programmed")


def check_runtimes(runtimes: Sequence[Manifest]) -> Check:
    """Check the runtimes that services of a namespace can have."""
    names = sorted(item["metadata"]["name"] for item in runtimes if not item.get("spec", {}).get("disabled"))
    if names:
        return Check("runtimes", Verdict.OK, ", ".join(names))
    return Check("runtimes", Verdict.PROBLEM, "no runtime is installed; apply manifests/runtimes (docs/install.md)")


def check_settings(ignored: Iterable[str], home: str, *, exists: bool) -> Iterator[Check]:
    """Check the settings of ``inferenceservice-config``: one line for each that has no effect."""
    if not exists:
        message = f"there is no inferenceservice-config in namespace {home}; the defaults hold"
        yield Check("configuration", Verdict.OK, message)
        return
    lines = [Check("configuration", Verdict.WARNING, one_line(f"no effect: {it}; remove it")) for it in ignored]
    yield from lines or [Check("configuration", Verdict.OK, "every setting of inferenceservice-config is used")]


def check_health(failed: Sequence[str], count: int, namespace: str) -> Check:
    """Check the services of a namespace whose specs can be served: ``failed`` have a status that says so."""
    if not failed:
        return Check("services", Verdict.OK, f"{count} in namespace {namespace}; the spec of each can be served")
    listed = ", ".join(failed[:NAMED]) + (f" and {len(failed) - NAMED} more" if len(failed) > NAMED else "")
    have = f"{len(failed)} of {count} in namespace {namespace} {'has' if len(failed) == 1 else 'have'} failed"
    return Check("services", Verdict.WARNING, f"{have}: {listed}; isvc status -n {namespace} says why")
