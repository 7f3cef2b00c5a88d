"""The payload logger of a component: what its container gets, and what of it has no effect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from data_plane.payload_logger.settings import VARIABLE, LoggerSettings, Mode, settings_of
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.errors import InvalidSpec
from isvc_operator.ignored.walker import unused_fields
from isvc_operator.manifests import Container
from isvc_operator.resolve.front import LOGGER
from isvc_operator.resolve.ignored import unread_settings
from tests.support.builders import a_resolved, a_runtime, a_service

URL = "http://sink"
READS = {"isvc-operator.io/settings": LOGGER}
OURS = a_runtime(metadata_annotations=READS)
TRANSFORMER = {"containers": [{"image": "registry.example/transformer:1"}]}
FRACTION = "isvc-operator.io/logger-fraction"


def logging(logger: Mapping[str, Any] | None = None, **service: Any) -> InferenceService:
    return a_service(predictor={"logger": {"mode": "all", "url": URL, **(logger or {})}}, **service)


def config(**logger: Any) -> OperatorConfig:
    return parse_config({"logger": json.dumps(logger)})


def settings_in(container: Container) -> LoggerSettings | None:
    """What the server makes of the container's variable."""
    return settings_of({item["name"]: item["value"] for item in container["env"]})


def predictors(service: InferenceService, given: OperatorConfig | None = None) -> LoggerSettings | None:
    return settings_in(a_resolved(service, OURS, given).predictor.server)


def test_the_variable_is_the_one_that_servers_read() -> None:
    assert LOGGER == VARIABLE


def test_a_server_gets_what_kserves_agent_gets() -> None:
    service = logging(
        {"mode": "request", "metadataHeaders": ["X-User"], "metadataAnnotations": ["team", "missing"]},
        annotations={"team": "a", FRACTION: "0.25"},
    )

    assert predictors(service) == LoggerSettings(
        url=URL,
        mode=Mode.REQUEST,
        inference_service="torchserve",
        namespace="models",
        component="predictor",
        metadata_headers=("X-User",),
        annotations={"team": "a"},
        fraction=0.25,
    )


def test_without_a_logger_there_is_no_variable() -> None:
    assert predictors(a_service(), config(defaultUrl=URL)) is None


@pytest.mark.parametrize(("given", "url"), [({}, "http://default-broker"), ({"defaultUrl": URL}, URL)])
def test_a_logger_without_a_url_sends_to_the_administrators(given: dict[str, Any], url: str) -> None:
    settings = predictors(logging({"url": None}), config(**given))

    assert settings
    assert settings.url == url


def test_a_variable_of_the_user_wins() -> None:
    theirs = '{"url": "http://theirs"}'
    service = logging(model={"env": [{"name": LOGGER, "value": theirs}]})

    assert predictors(service) == LoggerSettings(url="http://theirs")


def test_kubernetes_expands_nothing_in_the_variable() -> None:
    service = logging({"metadataAnnotations": ["team"]}, annotations={"team": "$(HOME)"})
    env = a_resolved(service, OURS).predictor.server["env"]

    (value,) = [item["value"] for item in env if item["name"] == LOGGER]
    assert '"$$(HOME)"' in value


def test_a_transformer_has_a_logger_of_its_own() -> None:
    service = a_service(spec={"transformer": {**TRANSFORMER, "logger": {"mode": "all", "url": URL}}})
    resolved = a_resolved(service, OURS)

    assert resolved.transformer
    assert settings_in(resolved.transformer.server) == LoggerSettings(
        url=URL, inference_service="torchserve", namespace="models", component="transformer"
    )
    assert settings_in(resolved.predictor.server) is None


def test_in_the_predictors_pod_the_transformer_logs_in_place_of_the_server() -> None:
    containers = [{"name": "transformer-container", "image": "registry.example/transformer:1"}]
    service = a_service(predictor={"logger": {"mode": "all", "url": URL}, "containers": containers})
    predictor = a_resolved(service, OURS).predictor

    assert settings_in(predictor.front) == LoggerSettings(
        url=URL, inference_service="torchserve", namespace="models", component="predictor"
    )
    assert settings_in(predictor.server) is None


def test_a_sink_with_https_is_checked_with_the_administrators_certificates() -> None:
    given = config(caBundle="sink-ca", caCertFile="ca.crt")
    resolved = a_resolved(logging({"url": "https://sink"}), OURS, given)
    settings = settings_in(resolved.predictor.server)

    assert settings
    assert (settings.ca_file, settings.tls_skip_verify) == ("/etc/tls/logger/ca.crt", False)
    assert resolved.predictor.server["volumeMounts"] == [
        {"name": "agent-ca-bundle", "mountPath": "/etc/tls/logger", "readOnly": True}
    ]
    assert resolved.predictor.pod["volumes"] == [
        {"name": "agent-ca-bundle", "configMap": {"name": "sink-ca", "optional": True}}
    ]


def test_a_sink_without_https_needs_no_certificates() -> None:
    resolved = a_resolved(logging(), OURS, config(caBundle="sink-ca", tlsSkipVerify=True))

    assert settings_in(resolved.predictor.server) == LoggerSettings(
        url=URL, inference_service="torchserve", namespace="models", component="predictor", tls_skip_verify=True
    )
    assert "volumes" not in resolved.predictor.pod


@pytest.mark.parametrize("fraction", ["0", "-1", "1.5", "nan", "half", ""])
def test_a_fraction_that_is_none_is_refused(fraction: str) -> None:
    with pytest.raises(InvalidSpec) as error:
        predictors(logging(annotations={FRACTION: fraction}))

    assert str(error.value) == (
        f"annotation {FRACTION} is {fraction!r}; write the fraction of the requests to log, such as 0.1: above 0, and "
        "at most 1"
    )


def named(service: InferenceService, runtime: Any = OURS, given: OperatorConfig | None = None) -> list[str]:
    chosen = a_resolved(service, runtime).chosen if service.spec.predictor.model else None
    return [*unused_fields(service), *unread_settings(service, chosen, (given or OperatorConfig()).logger)]


def test_our_runtimes_read_all_of_a_logger() -> None:
    assert named(logging({"metadataHeaders": ["x"], "batchSize": 1, "batchInterval": "0"})) == []


def test_a_runtime_that_does_not_list_the_variable_is_named() -> None:
    assert named(logging(), a_runtime("theirs")) == [
        f"spec.predictor.logger (the server of runtime theirs gets {LOGGER}, which its annotation "
        "isvc-operator.io/settings does not list)"
    ]


HAS_TO_READ = (
    f"(the container gets {LOGGER}, and has to read it; if it does, as with our SDK, write annotations: "
    f"{{isvc-operator.io/settings: {LOGGER}}} beside it)"
)


def test_a_container_that_is_not_said_to_read_the_variable_is_named() -> None:
    logger = {"logger": {"mode": "all", "url": URL}}
    own = {"containers": [{"name": "kserve-container", "image": "registry.example/own:1"}]}

    assert named(a_service(spec={"transformer": {**TRANSFORMER, **logger}})) == [
        f"spec.transformer.logger {HAS_TO_READ}"
    ]
    assert named(a_service(spec={"transformer": {**TRANSFORMER, **logger, "annotations": READS}})) == []
    assert named(a_service(model=None, predictor={**own, **logger})) == [f"spec.predictor.logger {HAS_TO_READ}"]
    assert named(a_service(model=None, predictor={**own, **logger, "annotations": READS})) == []


STORAGE = {"path": "logs", "parameters": {"format": "json"}, "key": "credentials"}


@pytest.mark.parametrize(
    ("logger", "text"),
    [
        ({"url": "s3://logs"}, "url (nothing is logged: payloads are sent to http:// and https:// only)"),
        ({"storage": STORAGE}, "storage (payloads are sent to the url, and stored nowhere)"),
        ({"marshallerUrl": "http://localhost:9083"}, "marshallerUrl (payloads are sent as they are)"),
        ({"batchSize": 10}, "batchSize: 10 (each payload is sent by itself)"),
        ({"batchInterval": "10s"}, "batchInterval: 10s (each payload is sent at once)"),
        ({"metadataAnnotations": ["team"]}, "metadataAnnotations: team (the pods have no such annotation)"),
    ],
    ids=["store", "storage", "marshaller", "size", "interval", "annotation"],
)
def test_what_of_a_logger_has_no_effect_is_named(logger: dict[str, Any], text: str) -> None:
    assert named(logging(logger)) == [f"spec.predictor.logger.{text}"]


NO_URL = "it is not a URL; write one such as http://collector.logging"
NO_SERVER = "it is not the URL of a server; write one such as http://collector.logging"
# What a service may contain, and why no payload can be sent there; None where one can.
URLS = {
    "http://sink:8080/in?a=b": None,
    "https://[::1]:8443": None,
    "HTTP://sink": None,
    "s3://id:password@logs": "payloads are sent to http:// and https:// only",
    "http://me:password@sink": (
        "it contains a user name, which would not be sent; let the sink accept payloads without one"
    ),
    "http://": NO_SERVER,
    "http:///in": NO_SERVER,
    "http://si nk/": NO_SERVER,
    "http://sink/in\r\nHost: other": NO_SERVER,
    "http://sünk": NO_SERVER,
    "http://sink:0": NO_SERVER,
    "http://sink:99999": NO_URL,
    "http://sink:port": NO_URL,
    "http://[::1": NO_URL,
}


@pytest.mark.parametrize(("url", "problem"), URLS.items())
def test_a_server_gets_no_url_with_which_it_would_not_start(url: str, problem: str | None) -> None:
    settings = predictors(logging({"url": url}))
    by_default = predictors(logging({"url": None}), config(defaultUrl=url))

    assert (settings is None, by_default is None) == (problem is not None, problem is not None)
    text = f" (nothing is logged: {problem})"
    assert named(logging({"url": url})) == ([f"spec.predictor.logger.url{text}"] if problem else [])
    assert named(logging({"url": None}), given=config(defaultUrl=url)) == (
        [f"spec.predictor.logger without a url, and logger.defaultUrl of the ConfigMap{text}"] if problem else []
    )


def test_a_fraction_without_a_logger_is_named() -> None:
    assert named(a_service(annotations={FRACTION: "0.1"})) == [f"annotation {FRACTION} (the service has no logger)"]
    assert named(a_service(predictor={"annotations": {FRACTION: "0.1"}})) == [
        f"annotation {FRACTION} of spec.predictor (it has no logger)"
    ]
