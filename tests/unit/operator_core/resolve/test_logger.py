"""The payload logger of a component: what its container gets, and what of it has no effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from data_plane.payload_logger.settings import VARIABLE, LoggerSettings, Mode, settings_of
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.config import OperatorConfig
from isvc_operator.manifests import Container
from isvc_operator.resolve.front import LOGGER
from tests.support.builders import a_resolved, a_runtime, a_service

URL = "http://sink"
READS = {"isvc-operator.io/settings": LOGGER}
OURS = a_runtime(metadata_annotations=READS)
FRACTION = "isvc-operator.io/logger-fraction"


def logging(logger: Mapping[str, Any] | None = None, **service: Any) -> InferenceService:
    return a_service(predictor={"logger": {"mode": "all", "url": URL, **(logger or {})}}, **service)


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
