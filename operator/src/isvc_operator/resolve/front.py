"""Steps for the container that gets the requests: TLS, and the payload logger; a variable of each tells the server.

Both shipped runtimes and our SDK read the folder in which the Secret for TLS is mounted. A transformer checks its
predictor by the authority in the same Secret.

For the payload logger, KServe adds a container to the pod, its agent. The variable has what the agent gets as
arguments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.components import LoggerSpec
from isvc_operator.api.names import (
    ANNOTATION_LOGGER_FRACTION,
    ANNOTATION_SETTINGS,
    ANNOTATION_TLS_SECRET,
    CONTAINER_TRANSFORMER,
)
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.component import Component, Context
from isvc_operator.resolve.containers import merge_items, with_variable
from isvc_operator.resolve.requested import settings_read

TLS_DIR: Final = "TLS_DIR"
_VOLUME = "serving-tls"
_FOLDER = "/etc/tls/serving"
_MOUNT: Mapping[str, Any] = {"name": _VOLUME, "mountPath": _FOLDER, "readOnly": True}
_MODE = 0o440  # of the files, which belong to the group of the pod
_SCRAPE, _SCHEME = "prometheus.io/scrape", "prometheus.io/scheme"
_PROBES = ("readinessProbe", "livenessProbe", "startupProbe")
LOGGER: Final = "PAYLOAD_LOGGER"
# KServe's names of the volume and its folder.
_CA_VOLUME = "agent-ca-bundle"
_CA_FOLDER = "/etc/tls/logger"
_CA_MOUNT: Mapping[str, Any] = {"name": _CA_VOLUME, "mountPath": _CA_FOLDER, "readOnly": True}


def serving_tls(component: Component, context: Context) -> Component:
    """Return the component with the Secret, and with probes by HTTPS; raises InvalidSpec if its server reads none."""
    if context.secret is None:
        return component
    _check_reads(component, context)
    front = with_variable(component.front, TLS_DIR, _FOLDER)
    front["volumeMounts"] = merge_items(front.get("volumeMounts", ()), [_MOUNT], "mountPath")
    front |= {name: _by_https(front[name], f"{context.requested.field}: {name}") for name in _PROBES if front.get(name)}
    volume = {"name": _VOLUME, "secret": {"secretName": context.secret.name, "defaultMode": _MODE}}
    scraped = {_SCHEME: "https"} if _SCRAPE in component.annotations else {}
    secured = component.with_front(front, volumes=merge_items(component.pod.get("volumes", ()), [volume], "name"))
    return replace(secured, tls=True, annotations={**scraped, **component.annotations})


def _check_reads(component: Component, context: Context) -> None:
    """Raise InvalidSpec unless the server says that it reads the variable: it would serve in the open."""
    if context.served and component.front is component.server:
        runtime = context.served.chosen.runtime.metadata
        reads = settings_read(runtime.annotations)
        who = f"the server of runtime {runtime.name}"
        remedy = "choose another runtime"
    else:
        reads = settings_read(context.requested.spec.annotations or {})
        name = component.front.get("name") or CONTAINER_TRANSFORMER
        who = f"container {name} of {context.requested.field}"
        remedy = f"if it does, as with our SDK, write annotations: {{{ANNOTATION_SETTINGS}: {TLS_DIR}}} beside it"
    if TLS_DIR not in reads:
        raise InvalidSpec(
            f"the pods are to serve TLS, and {who} does not say that it reads {TLS_DIR}; {remedy}, or set "
            f'{ANNOTATION_TLS_SECRET} of the service to ""'
        )


def _by_https(probe: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the probe of a port that serves TLS; kubelets cannot probe gRPC over TLS."""
    if "grpc" in probe:
        raise InvalidSpec(f"{where}.grpc cannot reach a server over TLS; write httpGet or tcpSocket")
    if "httpGet" not in probe:
        return dict(probe)
    return {**probe, "httpGet": {**probe["httpGet"], "scheme": "HTTPS"}}


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
