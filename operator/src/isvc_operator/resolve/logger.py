"""Step: the payload logger, as one variable of the container that gets the requests, which our servers read.

KServe adds a container to the pod instead, its agent. The variable has what the agent gets as arguments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.components import LoggerSpec
from isvc_operator.api.names import ANNOTATION_LOGGER_FRACTION
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.component import Component, Context
from isvc_operator.resolve.containers import merge_items, with_variable

LOGGER: Final = "PAYLOAD_LOGGER"
# KServe's names of the volume and its folder.
_CA_VOLUME = "agent-ca-bundle"
_CA_FOLDER = "/etc/tls/logger"
_CA_MOUNT: Mapping[str, Any] = {"name": _CA_VOLUME, "mountPath": _CA_FOLDER, "readOnly": True}


def url_problem(url: str) -> str | None:
    """Return why no payloads can be sent to this URL; the text does not repeat it, because it may hold a password.

    A server that gets such a URL would not start. KServe's agent also writes to object stores.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "it is not a URL; write one such as http://collector.logging"
    if parts.scheme not in ("http", "https"):
        return "payloads are sent to http:// and https:// only"
    if parts.username is not None:
        return "it contains a user name, which would not be sent; let the sink accept payloads without one"
    if not (parts.hostname and url.isascii() and url.isprintable()) or " " in url or port == 0:
        return "it is not the URL of a server; write one such as http://collector.logging"
    return None


def payload_logger(component: Component, context: Context) -> Component:
    """Return the component with its logger, if it has one that can be served."""
    logger, config = context.requested.spec.logger, context.config.logger
    url = (logger and logger.url) or config.default_url
    if logger is None or url_problem(url):
        return component
    ca_bundle = config.ca_bundle if urlsplit(url).scheme == "https" else ""
    settings = _settings(component, logger, url, context.service.metadata)
    if ca_bundle:
        settings["caFile"] = f"{_CA_FOLDER}/{config.ca_cert_file}"
    if config.tls_skip_verify:
        settings["tlsSkipVerify"] = True
    # Kubernetes would replace $(NAME) by another variable.
    value = json.dumps(settings, ensure_ascii=False).replace("$(", "$$(")
    front = with_variable(component.front, LOGGER, value)
    if not ca_bundle:
        return component.with_front(front)
    front["volumeMounts"] = [*front.get("volumeMounts", ()), _CA_MOUNT]
    # As with KServe, pods start without the ConfigMap, and the system's certificates are used.
    volume = {"name": _CA_VOLUME, "configMap": {"name": ca_bundle, "optional": True}}
    return component.with_front(front, volumes=merge_items(component.pod.get("volumes", ()), [volume], "name"))


def fraction_of(annotations: Mapping[str, str]) -> float | None:
    """Return the fraction of the requests to log, if an annotation has one; raises InvalidSpec."""
    if (text := annotations.get(ANNOTATION_LOGGER_FRACTION)) is None:
        return None
    try:
        fraction = float(text)
    except ValueError:
        fraction = 0.0
    if not 0 < fraction <= 1:
        raise InvalidSpec(
            f"annotation {ANNOTATION_LOGGER_FRACTION} is {text!r}; write the fraction of the requests to log, such as "
            "0.1: above 0, and at most 1"
        )
    return fraction


def _settings(component: Component, logger: LoggerSpec, url: str, service: ObjectMeta) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "url": url,
        "mode": logger.mode,
        "inferenceService": service.name,
        "namespace": service.namespace or "",
        "component": component.kind,
    }
    if logger.metadata_headers:
        settings["metadataHeaders"] = list(logger.metadata_headers)
    there = [name for name in logger.metadata_annotations or () if name in component.annotations]
    if there:
        settings["annotations"] = {name: component.annotations[name] for name in there}
    if (fraction := fraction_of(component.annotations)) is not None:
        settings["fraction"] = fraction
    return settings
