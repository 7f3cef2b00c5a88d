"""Which ends of logs are read, and how often."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from isvc.source import log_ends
from isvc.source.log_ends import LogEnds
from isvc.view.log_ends import LogEnd, wanted
from isvc_operator.kube.requests import ApiRequest
from isvc_operator.manifests import ServiceKey
from tests.support.builders import a_container, a_crashed_pod, a_pod, a_ready_pod, an_initializer, running
from tests.support.fakes import FakeKubeApi, Seconds

KEY = ServiceKey("models", "torchserve")
POD = "torchserve-predictor-1-a"
COPYING = a_pod(initializer=an_initializer(running()))
STARTING = a_pod(initializer=an_initializer(), containers=[a_container()])


@pytest.mark.parametrize(
    ("pods", "ends"),
    [
        ([a_ready_pod()], []),
        ([a_pod(node=None)], []),
        ([COPYING], [LogEnd(pod=POD, container="storage-initializer", lines=1, every=2.0)]),
        ([STARTING], [LogEnd(pod=POD, container="kserve-container", lines=5, every=5.0)]),
        ([a_crashed_pod()], [LogEnd(pod=POD, container="kserve-container", lines=10, attempt="containerd://one")]),
        ([a_crashed_pod(template="0", created="2025-01-01T00:00:00Z"), a_ready_pod("new")], []),
    ],
    ids=["of a ready pod none", "of a new pod none", "a copy", "a start", "a crash", "of an older template none"],
)
def test_what_is_read(pods: list[dict[str, Any]], ends: list[LogEnd]) -> None:
    assert [*wanted(pods)] == ends


def test_of_many_pods_only_some_are_read() -> None:
    assert len([*wanted([a_crashed_pod(f"pod-{number}") for number in range(100)])]) == 5


async def test_the_log_of_a_container_that_was_restarted_as_it_was_read_is_the_previous_one() -> None:
    api = FakeKubeApi()
    ends = LogEnds(api, Seconds())
    api.logs = {f"{POD}/kserve-container": "", f"{POD}/kserve-container/previous": "boom"}

    await ends.refresh(KEY, [a_crashed_pod()])

    assert ends.of(KEY) == {(POD, "kserve-container"): "boom"}


async def test_progress_is_read_again_and_a_crash_once() -> None:
    api, clock = FakeKubeApi(), Seconds()
    ends = LogEnds(api, clock)
    api.logs = {f"{POD}/storage-initializer": "43 % of it", f"{POD}/kserve-container": "boom"}

    assert await ends.refresh(KEY, [COPYING]) == 2.0
    assert await ends.refresh(KEY, [COPYING]) == 2.0
    assert ends.of(KEY) == {(POD, "storage-initializer"): "43 % of it"}
    clock.passed += 2.0
    api.logs[f"{POD}/storage-initializer"] = "50 % of it"
    await ends.refresh(KEY, [COPYING])
    assert ends.of(KEY) == {(POD, "storage-initializer"): "50 % of it"}

    assert await ends.refresh(KEY, [a_crashed_pod()]) is None
    assert await ends.refresh(KEY, [a_crashed_pod()]) is None
    assert ends.of(KEY) == {(POD, "kserve-container"): "boom"}
    assert len(api.calls) == 3

    assert await ends.refresh(KEY, [a_ready_pod()]) is None
    assert ends.of(KEY) == {}


async def test_a_node_that_is_gone_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_ends, "SEEN_LOG_SECONDS", 0.01)
    api, clock = FakeKubeApi(logs={f"{POD}/storage-initializer": "43 % of it"}), Seconds()
    ends = LogEnds(api, clock)
    await ends.refresh(KEY, [COPYING])

    async def no_answer(_request: ApiRequest) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(api, "send", no_answer)
    clock.passed += 2.0

    assert await ends.refresh(KEY, [COPYING]) == 30.0
    assert ends.of(KEY) == {(POD, "storage-initializer"): "43 % of it"}
    assert await ends.refresh(KEY, [a_crashed_pod()]) == 30.0
    assert ends.of(KEY) == {}  # nothing of another container's log, or of an earlier run
