"""What the administrator learns of settings that have no effect."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.ignored_settings import IgnoredSettings
from isvc_operator.kube.informer.cache import Cache
from isvc_operator.manifests import Manifest
from tests.support.fakes import FakeKubeApi

NOW = "2026-01-01T00:00:00Z"
EVENTS = "/api/v1/namespaces/isvc-system/events"


def reports(api: FakeKubeApi, home: str = "isvc-system") -> IgnoredSettings:
    return IgnoredSettings(api, lambda: NOW, home)


async def test_they_are_logged_and_an_event_of_the_configmap(caplog: pytest.LogCaptureFixture) -> None:
    api = FakeKubeApi()

    await reports(api).of_config_map(["agent", "logger"])

    assert caplog.messages == ["inferenceservice-config: these settings have no effect: agent; logger"]
    (event,) = api.events
    involved = {"apiVersion": "v1", "kind": "ConfigMap", "name": "inferenceservice-config", "namespace": "isvc-system"}
    assert event["involvedObject"] == involved
    assert (event["type"], event["reason"], event["message"]) == (
        "Warning",
        "SettingsIgnored",
        "Ignored: agent; logger",
    )


async def test_without_any_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    api = FakeKubeApi()

    await reports(api).of_config_map([])

    assert (caplog.messages, api.calls) == ([], [])


async def test_outside_of_a_cluster_they_are_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    api = FakeKubeApi()

    await reports(api, "").of_config_map(["agent"])

    assert (len(caplog.messages), api.calls) == (1, [])


async def test_an_event_that_is_refused_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    api = FakeKubeApi(failing={("POST", EVENTS): KubeError(403, "no")})

    await reports(api).of_config_map(["agent"])

    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert "an Event is not recorded: no (it says: Ignored: agent)" in caplog.messages[1]


def a_container(version: str, **spec: Any) -> Manifest:
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ClusterStorageContainer",
        "metadata": {"name": "mine", "uid": "u", "resourceVersion": version},
        "spec": {"container": {"name": "c"}, "supportedUriFormats": [{"prefix": "s3://"}], **spec},
    }


async def test_a_storage_container_gets_an_event_for_each_version_with_unknown_fields() -> None:
    api, cache = FakeKubeApi(), Cache()
    reported = reports(api)
    for container in (a_container("1", workloadTyp="x"), a_container("1", workloadTyp="x"), a_container("2")):
        cache.put(container)
        await reported.of_storage_containers(cache)

    (event,) = api.events
    assert event["metadata"]["namespace"] == "default"
    assert event["involvedObject"] == {
        "apiVersion": "serving.kserve.io/v1alpha1", "kind": "ClusterStorageContainer", "name": "mine", "uid": "u",
    }  # fmt: skip
    assert (event["type"], event["reason"]) == ("Warning", "FieldsIgnored")
    assert event["message"] == "Ignored: spec.workloadTyp (did you mean workloadType?)"


async def test_a_storage_container_that_is_not_valid_gets_an_event() -> None:
    api, cache = FakeKubeApi(), Cache()
    cache.put(a_container("1", supportedUriFormats=5))

    await reports(api).of_storage_containers(cache)

    assert "ClusterStorageContainer mine is not valid: spec.supportedUriFormats" in api.events[0]["message"]
