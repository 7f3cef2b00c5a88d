"""The transformer and the explainer: the user's own containers, with the predictor's address (docs/transformers.md).

As with KServe, flags of its model server are appended to their arguments, unless the user has given them. In addition
the predictor's protocol is passed on if it is not v1, the default of a transformer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.names import EXPLAINER
from isvc_operator.config import OperatorConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import Container
from isvc_operator.resolve.component import (
    Component,
    annotations_for,
    http_port,
    pod_of,
    port_in_address,
    strategy_of,
    with_pod_defaults,
    with_service_name,
    with_variable,
)
from isvc_operator.resolve.components import ComponentSpec, RequestedComponent
from isvc_operator.resolve.flags import flag_value, with_flags
from isvc_operator.resolve.own_containers import completed, server_first
from isvc_operator.resolve.settings import is_usable
from isvc_operator.resolve.storage.plan import StorageContext, plan_storage
from isvc_operator.resolve.storage.sources import with_stored_path
from isvc_operator.text import one_line

MODEL_NAME: Final = "--model_name"
PREDICTOR_HOST: Final = "--predictor_host"
USE_TLS: Final = "--predictor_use_ssl"
HEALTH_CHECK: Final = "--enable_predictor_health_check"
# With it our SDK opens its port only after the predictor has accepted a connection; KServe's ignores it.
WAIT_FOR_PREDICTOR: Final = "WAIT_FOR_PREDICTOR"
TIMEOUT: Final = "--predictor_request_timeout_seconds"
_PROTOCOL_FLAGS = ("--predictor_protocol", "--protocol")  # the second is the older name of the first
_ASSUMED_PROTOCOL = "v1"
# As the Gateway API limits a path, without the slash; a variable such as $(NAME) is filled in by the kubelet.
_IN_PATH: Final = re.compile(r"(?:[-A-Za-z0-9._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2})+")


@dataclass(frozen=True)
class Backend:
    """The predictor's address and protocol for the components that call it; ``tls``: it serves nothing but TLS."""

    host: str
    protocol: str
    tls: bool = False


def backend_of(predictor: Component, protocol: str, *, namespace: str, config: OperatorConfig) -> Backend:
    """Return the address of the predictor's Service, in KServe's form."""
    port = port_in_address(predictor, config, grpc=protocol.startswith("grpc"))
    return Backend(f"{predictor.name}.{namespace}{port}", protocol, predictor.tls)


def resolve_wrapper(
    service: ObjectMeta,
    requested: RequestedComponent,
    *,
    backend: Backend,
    config: OperatorConfig,
    storage: StorageContext,
) -> Component:
    """Return the transformer or the explainer of a service."""
    spec = requested.spec
    pod = pod_of(spec)
    server, *others = server_first(pod.get("containers", ()), requested.field)
    server = with_service_name(with_stored_path(server), service)
    server = with_variable(server, WAIT_FOR_PREDICTOR, "true")
    server = with_flags(server, _flags(server, service.name, spec, backend))
    if requested.kind == EXPLAINER:
        _check_model_name(flag_value(server, MODEL_NAME) or "", requested.field)
    annotations = annotations_for(service, spec, config)
    return Component(
        kind=requested.kind,
        name=requested.name,
        labels={**service.labels, **(spec.labels or {})},
        annotations=annotations,
        server=completed(server, pod, config.inference_service.resource),
        pod=with_pod_defaults({**pod, "containers": others}, config),
        storage=plan_storage(requested.kind, annotations, config=config, context=storage),
        strategy=strategy_of(spec),
    )


def _check_model_name(name: str, field: str) -> None:
    """Raise InvalidSpec for a name that the path of the explainer's route cannot have."""
    if not _IN_PATH.fullmatch(name):
        raise InvalidSpec(
            f"{field}: {MODEL_NAME} {one_line(name, 100)!r} is a part of the path /v1/models/NAME:explain; write "
            "letters, digits, '-', '_', '.' or '~'"
        )


def _flags(server: Container, service: str, spec: ComponentSpec, backend: Backend) -> dict[str, str]:
    flags = {MODEL_NAME: service, PREDICTOR_HOST: backend.host, "--http_port": str(http_port(server))}
    given = any(flag_value(server, flag) is not None for flag in _PROTOCOL_FLAGS)
    if backend.protocol != _ASSUMED_PROTOCOL and not given:
        flags[_PROTOCOL_FLAGS[0]] = backend.protocol
    if backend.tls:
        flags[USE_TLS] = "true"
    if spec.container_concurrency:
        flags["--workers"] = str(spec.container_concurrency)
    if spec.timeout is not None and is_usable(spec.timeout):
        flags[TIMEOUT] = str(spec.timeout)
    return flags
