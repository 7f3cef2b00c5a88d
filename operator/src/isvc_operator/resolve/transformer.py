"""Steps of the transformer and the explainer, whose servers get the predictor's address (docs/transformers.md).

As with KServe, flags of its model server are appended to their arguments, unless the user has given them. In addition
the predictor's protocol is passed on if it is not v1, the default of a transformer.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import Container
from isvc_operator.resolve.component import Component, Context, Predictor
from isvc_operator.resolve.containers import flag_value, with_flags, with_variable
from isvc_operator.resolve.ports import http_port
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


def predictor_flags(component: Component, context: Context) -> Component:
    """Return a transformer or an explainer that knows the predictor."""
    server = with_variable(component.server, WAIT_FOR_PREDICTOR, "true")
    return replace(component, server=with_flags(server, _flags(component, server, context)))


def model_name_in_path(component: Component, context: Context) -> Component:
    """Return the explainer as it is; raises InvalidSpec for a name that the path of its route cannot have."""
    name = flag_value(component.server, MODEL_NAME) or ""
    if not _IN_PATH.fullmatch(name):
        raise InvalidSpec(
            f"{context.requested.field}: {MODEL_NAME} {one_line(name, 100)!r} is a part of the path "
            "/v1/models/NAME:explain; write letters, digits, '-', '_', '.' or '~'"
        )
    return component


def _flags(component: Component, server: Container, context: Context) -> dict[str, str]:
    spec, flags = context.requested.spec, {MODEL_NAME: context.service.metadata.name}
    if context.predictor:
        flags |= _address(server, context.predictor, context)
    if spec.container_concurrency:
        flags["--workers"] = str(spec.container_concurrency)
    if component.timeout:
        flags[TIMEOUT] = str(component.timeout)
    return flags


def _address(server: Container, predictor: Predictor, context: Context) -> dict[str, str]:
    """Return the flags for the address of the predictor's Service, in KServe's form."""
    component, protocol = predictor.component, predictor.protocol
    port = component.ports.grpc_in_address if protocol.startswith("grpc") else component.ports.in_address
    flags = {PREDICTOR_HOST: f"{component.name}.{context.service.metadata.namespace or ''}{port}"}
    flags["--http_port"] = str(http_port(server))
    given = any(flag_value(server, flag) is not None for flag in _PROTOCOL_FLAGS)
    if protocol != _ASSUMED_PROTOCOL and not given:
        flags[_PROTOCOL_FLAGS[0]] = protocol
    if component.tls:
        flags[USE_TLS] = "true"
    return flags
