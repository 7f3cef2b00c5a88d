"""The runtime of a service, and why it was chosen. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from isvc.view.source import Related
from isvc.view.values import RuntimeView
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.names import ANNOTATION_RUNTIME
from isvc_operator.api.parsing import InvalidObject, parse_inference_service, parse_serving_runtime
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import Manifest
from isvc_operator.resolve.requested import model_of
from isvc_operator.resolve.runtime import Runtimes, choose_runtime, why_preferred


def runtime_of(related: Related) -> RuntimeView | None:
    """Return the runtime that the status names, or else the one that is chosen now; None without any."""
    status = related.service.get("status", {})
    own, cluster_wide = status.get("servingRuntimeName"), status.get("clusterServingRuntimeName")
    chosen = _chosen(related)
    if (name := own or cluster_wide) is None:
        return chosen
    if chosen and (chosen.name, chosen.cluster_wide) == (name, own is None):
        return chosen
    return RuntimeView(
        name=name, cluster_wide=own is None, why="chosen when the pods were last rolled out" if chosen else ""
    )


def _chosen(related: Related) -> RuntimeView | None:
    service = _parsed(related.service)
    model = model_of(service.spec.predictor) if service else None
    if service is None or model is None:
        return None
    annotated = service.metadata.annotations.get(ANNOTATION_RUNTIME)
    runtimes = _runtimes(related.runtimes, service.metadata.namespace or "")
    try:
        chosen = choose_runtime(model, runtimes, annotated)
    except InvalidSpec:
        return None
    if model.runtime:
        why = "named by spec.predictor.model.runtime"
    elif annotated:
        why = f"named by the annotation {ANNOTATION_RUNTIME}"
    else:
        why = why_preferred(chosen, model, runtimes)
    return RuntimeView(name=chosen.runtime.metadata.name, cluster_wide=chosen.cluster_wide, why=why)


def _parsed(service: Manifest) -> InferenceService | None:
    bare = {"metadata": {"name": "", **_plain(service["metadata"])}, "spec": service.get("spec")}
    try:
        return parse_inference_service(bare)
    except InvalidObject:
        return None


def _plain(metadata: Mapping[str, object]) -> Mapping[str, object]:
    return {name: metadata[name] for name in ("name", "namespace", "annotations", "labels") if name in metadata}


def _runtimes(bodies: Iterable[Manifest], namespace: str) -> Runtimes:
    valid: list[ServingRuntime] = []
    for body in bodies:
        try:
            valid.append(parse_serving_runtime(body))
        except InvalidObject:
            continue
    return Runtimes(
        namespaced=tuple(item for item in valid if not item.cluster_wide and item.metadata.namespace == namespace),
        cluster=tuple(item for item in valid if item.cluster_wide),
    )
