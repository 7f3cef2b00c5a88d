"""What the administrator learns of settings that have no effect."""

from __future__ import annotations

import logging

import pytest

from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.ignored_settings import report_ignored
from tests.support.fakes import FakeKubeApi

NOW = "2026-01-01T00:00:00Z"
EVENTS = "/api/v1/namespaces/isvc-system/events"


async def test_they_are_logged_and_an_event_of_the_configmap(caplog: pytest.LogCaptureFixture) -> None:
    api = FakeKubeApi()

    await report_ignored(api, ["agent", "logger"], home="isvc-system", now=NOW)

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

    await report_ignored(api, [], home="isvc-system", now=NOW)

    assert (caplog.messages, api.calls) == ([], [])


async def test_outside_of_a_cluster_they_are_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    api = FakeKubeApi()

    await report_ignored(api, ["agent"], home="", now=NOW)

    assert (len(caplog.messages), api.calls) == (1, [])


async def test_an_event_that_is_refused_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    api = FakeKubeApi(failing={("POST", EVENTS): KubeError(403, "no")})

    await report_ignored(api, ["agent"], home="isvc-system", now=NOW)

    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert "no Event is recorded on the ConfigMap inferenceservice-config: no" in caplog.messages[1]
