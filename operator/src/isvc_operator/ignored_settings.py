"""Finds settings of KServe's ``inferenceservice-config`` that have no effect: none is ignored silently. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pydantic import BaseModel

from isvc_operator.api.unknown_fields import suggestion
from isvc_operator.config import IngressConfig, OperatorConfig
from isvc_operator.limits import LINE_BYTES, NAMED
from isvc_operator.text import one_line, shortened


@dataclass(frozen=True)
class _Unused:
    """A setting of KServe's that is not read: what happens instead, and the values that request just that."""

    instead: str
    same: tuple[object, ...] = ()


_NO_COLLECTOR = _Unused("no OpenTelemetryCollector is created")
_ONE_BY_ONE = _Unused("each payload is sent by itself", ("", "0", 0, 1, "1"))
# By key, or by key and field.
_UNUSED: Mapping[str, _Unused] = {
    "agent": _Unused("pods have no agent container"),
    "batcher": _Unused("pods have no batcher container; our runtimes form batches themselves"),
    "deploy.defaultDeploymentMode": _Unused("services are served as by Standard", ("Standard", "RawDeployment")),
    "deploy.deploymentRolloutStrategy": _Unused("write deploymentStrategy in the components of services"),
    "explainers": _Unused("an explainer is served if it has containers"),
    "inferenceService.serviceLabelDisallowedList": _Unused("all labels of a service are copied", ([],)),
    "localModel.enabled": _Unused("write storageInitializer.cache to keep models on the nodes", (False,)),
    "logger.batchInterval": _ONE_BY_ONE,
    "logger.batchSize": _ONE_BY_ONE,
    "logger.marshallerUrl": _Unused("payloads are sent as they are"),
    "logger.storage": _Unused("payloads are sent to a URL, and stored nowhere"),
    "metricsAggregator.enableMetricAggregation": _Unused(
        "the metrics of each server are served as they are", ("false", False)
    ),
    "metricsAggregator.enablePrometheusScraping": _Unused("pods have the runtime's annotations", ("false", False)),
    "multiNode": _Unused("the pods of a service do not work together"),
    "opentelemetryCollector.metricReceiverEndpoint": _NO_COLLECTOR,
    "opentelemetryCollector.resource": _NO_COLLECTOR,
    "opentelemetryCollector.scrapeInterval": _NO_COLLECTOR,
    "router": _Unused("an InferenceGraph is not served"),
    "storageInitializer.ociInsecureRegistry": _Unused(
        "the nodes pull images, by their own settings", (False, "", "false")
    ),
}
# Details of what a setting above turns on, of Istio, which Standard mode does not use, or what KServe does not use.
DETAILS = frozenset(
    {
        "ingress.disableIstioVirtualHost", "ingress.ingressGateway", "ingress.knativeLocalGatewayService",
        "ingress.localGateway", "ingress.localGatewayService",
        "localModel.defaultJobImage", "localModel.disableVolumeManagement",
        "localModel.fsGroup", "localModel.jobNamespace", "localModel.jobTTLSecondsAfterFinished",
        "localModel.reconcilationFrequencyInSecs", "logger.cpuLimit", "logger.cpuRequest", "logger.image",
        "logger.memoryLimit", "logger.memoryRequest",
    }
)  # fmt: skip
_NO_CERTIFICATE = "with enableGatewayApi, the listeners of the Gateway have the certificates"
_NO_REWRITING = "an Ingress does not rewrite paths by itself: write enableGatewayApi or pathIngress as well"
_EXAMPLE = "_example"  # the key in which KServe documents the others


def ignored_settings(data: Mapping[str, str]) -> list[str]:
    """Return the first settings of the ConfigMap that have no effect, each with what happens instead."""
    found = list(islice(_ignored(data), NAMED + 1))
    return found if len(found) <= NAMED else [*found[:NAMED], "and others"]


def _ignored(data: Mapping[str, str]) -> Iterator[str]:
    sections = _fields(OperatorConfig)
    keys = {*sections, *(path.partition(".")[0] for path in _UNUSED)}
    for key in sorted(data.keys() - {_EXAMPLE}):
        if key in _UNUSED:
            yield f"{key} ({_UNUSED[key].instead})"
        elif key not in keys:
            yield f"{one_line(key)}{suggestion(key, keys)}"
        else:
            yield from _in_key(key, data[key], sections.get(key))


def _in_key(key: str, text: str, section: type[BaseModel] | None) -> Iterator[str]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict):
        yield from _in_object(key, document, section)
        if section is IngressConfig:
            yield from _of_other_routes(document)
    else:
        yield f"{key} (it is no JSON object)"


def _of_other_routes(ingress: Mapping[str, Any]) -> Iterator[str]:
    """Yield the settings of key ``ingress`` that have no effect on the kind of routes that is created."""
    if ingress.get("enableGatewayApi") is True:
        if ingress.get("tlsSecretName"):
            yield f"ingress.tlsSecretName ({_NO_CERTIFICATE})"
        if ingress.get("pathIngress"):
            yield "ingress.pathIngress (an HTTPRoute rewrites the path by itself)"
    elif ingress.get("pathTemplate") and not ingress.get("pathIngress"):
        yield f"ingress.pathTemplate ({_NO_REWRITING})"


def _in_object(path: str, document: Mapping[str, Any], section: type[BaseModel] | None) -> Iterator[str]:
    read = _fields(section) if section else {}
    known = {*read, *(name.rpartition(".")[2] for name in (*_UNUSED, *DETAILS) if name.startswith(f"{path}."))}
    for name, value in document.items():
        field = f"{path}.{one_line(name)}"
        if unused := _UNUSED.get(field):
            if value not in unused.same:
                yield f"{field}: {shortened(one_line(json.dumps(value)), LINE_BYTES)} ({unused.instead})"
        elif name not in known:
            yield f"{field}{suggestion(name, known)}"
        elif isinstance(value, dict) and (inner := read.get(name)):
            yield from _in_object(field, value, inner)


def _fields(model: type[BaseModel]) -> dict[str, type[BaseModel] | None]:
    """Return the fields of a model by their names in JSON, each with its own model if it is an object."""
    return {field.alias or name: _model_in(field.annotation) for name, field in model.model_fields.items()}


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that a field holds; ``CacheConfig | None`` holds one, too."""
    candidates: Collection[Any] = getattr(annotation, "__args__", (annotation,))
    return next((one for one in candidates if isinstance(one, type) and issubclass(one, BaseModel)), None)
