"""The transformer and the explainer: containers of the user's own that are told where the predictor is (contract §6.1).

KServe appends flags of its model server to their arguments, and so do we; what the user gave stays. Beyond KServe's,
the predictor's protocol is told where it is not v1, which a transformer takes for granted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from isvc_operator.api.components import ExplainerSpec, TransformerSpec
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.names import wrapper_name
from isvc_operator.config import OperatorConfig
from isvc_operator.resolve.component import (
    Component,
    annotations_for,
    http_port,
    pod_fields,
    port_in_address,
    replicas_of,
    strategy_of,
    with_pod_defaults,
    with_service_name,
    with_variable,
)
from isvc_operator.resolve.flags import flag_value, with_flags
from isvc_operator.resolve.own_containers import completed, server_first
from isvc_operator.resolve.settings import is_usable
from isvc_operator.resolve.sources import with_stored_path
from isvc_operator.resolve.storage import StorageContext, plan_storage
from isvc_operator.resolve.storage_request import request_of_containers

MODEL_NAME: Final = "--model_name"
PREDICTOR_HOST: Final = "--predictor_host"
HEALTH_CHECK: Final = "--enable_predictor_health_check"
# Our SDK opens no port before the predictor took a connection once; KServe's does not know it.
WAIT_FOR_PREDICTOR: Final = "WAIT_FOR_PREDICTOR"
TIMEOUT: Final = "--predictor_request_timeout_seconds"
_PROTOCOL_FLAGS = ("--predictor_protocol", "--protocol")  # the second is the older name of the first
_ASSUMED_PROTOCOL = "v1"


@dataclass(frozen=True)
class Backend:
    """The predictor as those see it that call it."""

    host: str
    protocol: str


def backend_of(predictor: Component, protocol: str, namespace: str, config: OperatorConfig) -> Backend:
    """The predictor's Service, as KServe names it."""
    port = port_in_address(predictor, config, grpc=protocol.startswith("grpc"))
    return Backend(f"{predictor.name}.{namespace}{port}", protocol)


def resolve_wrapper(
    service: InferenceService,
    kind: str,
    spec: TransformerSpec | ExplainerSpec,
    backend: Backend,
    config: OperatorConfig,
    context: StorageContext,
) -> Component:
    """The component ``kind`` around the predictor."""
    metadata, field = service.metadata, f"spec.{kind}"
    pod = pod_fields(spec)
    server, *others = server_first(pod.pop("containers", ()), field)
    server = with_service_name(with_stored_path(server), metadata)
    server = with_variable(server, WAIT_FOR_PREDICTOR, "true")
    server = with_flags(server, _flags(server, metadata.name, spec, backend))
    annotations = annotations_for(metadata, spec, config)
    return Component(
        kind=kind,
        name=wrapper_name(metadata.name, kind),
        labels={**metadata.labels, **(spec.labels or {})},
        annotations=annotations,
        server=completed(server, pod, config.inference_service.resource),
        pod=with_pod_defaults({**pod, "containers": others}, config),
        storage=plan_storage(request_of_containers(metadata, spec, field), annotations, config, context),
        replicas=replicas_of(spec, annotations),
        strategy=strategy_of(spec),
    )


def _flags(
    server: Mapping[str, Any], service: str, spec: TransformerSpec | ExplainerSpec, backend: Backend
) -> dict[str, str]:
    flags = {MODEL_NAME: service, PREDICTOR_HOST: backend.host, "--http_port": str(http_port(server))}
    told = any(flag_value(server, flag) is not None for flag in _PROTOCOL_FLAGS)
    if backend.protocol != _ASSUMED_PROTOCOL and not told:
        flags[_PROTOCOL_FLAGS[0]] = backend.protocol
    if spec.container_concurrency:
        flags["--workers"] = str(spec.container_concurrency)
    if spec.timeout is not None and is_usable(spec.timeout):
        flags[TIMEOUT] = str(spec.timeout)
    return flags
