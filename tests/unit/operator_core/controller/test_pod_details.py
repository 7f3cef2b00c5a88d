"""What is read about a starting pod, and how rarely."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from isvc_operator.controller.pod_details import (
    EVENTS_EVERY,
    LOG_EVERY,
    MOUNT_LATE,
    PROGRESS_EVERY,
    READINGS_PER_SECOND,
    READY_LATE,
    PodDetail,
    PodDetails,
    PodMemory,
)
from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.requests import path_of
from isvc_operator.limits import LOG_BYTES
from isvc_operator.observe.pods import PodFailure, first_failure
from tests.support.builders import NAMESPACE, a_container, a_crashed_pod, a_pod, an_initializer, running, waiting
from tests.support.failing_pods import PODS_OF_EVENTS
from tests.support.fakes import FakeKubeApi, Seconds

POD = "torchserve-predictor-1-a"
LOADING = a_pod(POD, initializer=an_initializer(running()))
PREPARING = a_pod(POD, initializer=an_initializer(waiting("PodInitializing")))
STARTING = a_pod(POD, initializer=an_initializer(), containers=[a_container()])


@dataclass
class Asking:
    """An API server, and the reader of its pods' details."""

    api: FakeKubeApi = field(default_factory=FakeKubeApi)
    clock: Seconds = field(default_factory=Seconds)

    def __post_init__(self) -> None:
        self.details = PodDetails(self.api, self.clock)
        self.memory = PodMemory()

    async def about(self, pod: dict[str, Any] | None, memory: PodMemory | None = None) -> PodDetail:
        return await self.details.of_starting(memory or self.memory, pod)

    def says(self, line: str) -> None:
        """The storage-initializer writes a line."""
        self.api.logs[f"{POD}/storage-initializer"] = f"{line}\n"

    def fails_to_mount(self, message: str = "it is not there") -> None:
        """The kubelet records an Event."""
        self.api.recorded.append(
            {
                "reason": "FailedMount",
                "message": message,
                "metadata": {"creationTimestamp": "2026-01-01T12:00:00Z"},
                "involvedObject": {"uid": f"uid-of-{POD}"},
            }
        )


@pytest.fixture
def asking() -> Asking:
    return Asking()


# --- how far the model is on its way -----------------------------------------------------------------------


async def test_after_two_seconds_the_last_line_of_its_log_is_read(asking: Asking) -> None:
    await asking.about(LOADING)
    asking.says(" 42 % of 4.7 GiB (812.3 MiB/s, 3 s left)")
    asking.clock.passed = PROGRESS_EVERY

    assert await asking.about(LOADING) == PodDetail(
        progress="42 % of 4.7 GiB (812.3 MiB/s, 3 s left)", requeue_after=PROGRESS_EVERY
    )
    (call,) = asking.api.calls
    assert call.path == path_of("Pod", NAMESPACE, POD) + "/log"
    assert ("tailLines", "1") in call.query


async def test_between_two_readings_the_detail_stays_and_nothing_is_read(asking: Asking) -> None:
    await asking.about(LOADING)
    asking.says("42 %")
    asking.clock.passed = PROGRESS_EVERY
    await asking.about(LOADING)
    asking.says("43 %")
    asking.clock.passed = PROGRESS_EVERY + 0.5

    assert await asking.about(LOADING) == PodDetail(progress="42 %", requeue_after=PROGRESS_EVERY - 0.5)
    assert len(asking.api.calls) == 1


async def test_nothing_is_read_of_a_pod_that_has_its_model(asking: Asking) -> None:
    await asking.about(LOADING)

    assert await asking.about(None) == PodDetail()
    assert await asking.about(LOADING) == PodDetail(requeue_after=PROGRESS_EVERY)


async def test_another_pod_is_read_from_the_start(asking: Asking) -> None:
    await asking.about(LOADING)
    asking.says("42 %")
    asking.clock.passed = PROGRESS_EVERY
    await asking.about(LOADING)

    assert await asking.about(a_pod("another", initializer=an_initializer(running()))) == PodDetail(
        requeue_after=PROGRESS_EVERY
    )


async def test_a_log_that_cannot_be_read_is_tried_again_later(asking: Asking) -> None:
    await asking.about(LOADING)
    asking.clock.passed = PROGRESS_EVERY

    assert await asking.about(LOADING) == PodDetail(requeue_after=PROGRESS_EVERY)


async def test_of_a_long_line_the_end_is_kept(asking: Asking) -> None:
    await asking.about(LOADING)
    asking.says("x" * 50_000 + "the end")
    asking.clock.passed = PROGRESS_EVERY

    kept = (await asking.about(LOADING)).progress
    assert len(kept.encode()) == LOG_BYTES
    assert kept.endswith("xthe end")


async def test_however_many_load_at_a_time_there_are_so_many_readings_a_second(asking: Asking) -> None:
    loading = 10 * READINGS_PER_SECOND
    for memory in (memories := [PodMemory() for _ in range(loading)]):
        detail = await asking.about(LOADING, memory)

    assert detail.requeue_after == pytest.approx(loading / READINGS_PER_SECOND, abs=0.1)

    del memories, memory  # the services are gone
    assert (await asking.about(LOADING)).requeue_after == PROGRESS_EVERY


# --- why a server that runs is not ready -------------------------------------------------------------------


async def test_the_log_of_a_server_that_is_not_ready_for_long_is_read(asking: Asking) -> None:
    asking.api.logs[f"{POD}/kserve-container"] = "http://nowhere.models is not ready\n"
    assert await asking.about(STARTING) == PodDetail(requeue_after=READY_LATE)
    assert asking.api.calls == []
    asking.clock.passed = READY_LATE

    assert await asking.about(STARTING) == PodDetail(log="http://nowhere.models is not ready", requeue_after=LOG_EVERY)
    (call,) = asking.api.calls
    assert dict(call.query)["tailLines"] == "5"


async def test_of_several_containers_the_one_that_is_not_ready_is_read(asking: Asking) -> None:
    asking.api.logs[f"{POD}/transformer-container"] = "waiting for localhost:8085"
    serving, late = {**a_container(), "ready": True}, a_container("transformer-container")
    pod = a_pod(POD, containers=[serving, late])
    await asking.about(pod)
    asking.clock.passed = READY_LATE

    assert (await asking.about(pod)).log == "waiting for localhost:8085"


# --- why volumes are not mounted ---------------------------------------------------------------------------


async def test_the_events_of_a_pod_that_is_prepared_for_long_are_read(asking: Asking) -> None:
    asking.fails_to_mount()
    assert await asking.about(PREPARING) == PodDetail(requeue_after=MOUNT_LATE)
    asking.clock.passed = MOUNT_LATE

    detail = await asking.about(PREPARING)

    assert detail.requeue_after == EVENTS_EVERY
    assert detail.failure is not None
    assert (detail.failure.reason, detail.failure.cause) == ("VolumeNotMounted", "it is not there")
    assert len(asking.api.calls) == 1


async def test_and_now_and_then_after_that(asking: Asking) -> None:
    await asking.about(PREPARING)
    asking.clock.passed = MOUNT_LATE
    assert (await asking.about(PREPARING)).failure is None
    asking.fails_to_mount()

    asking.clock.passed = MOUNT_LATE + EVENTS_EVERY - 1
    assert (await asking.about(PREPARING)).failure is None
    asking.clock.passed = MOUNT_LATE + EVENTS_EVERY

    assert (await asking.about(PREPARING)).failure is not None


async def test_a_pod_whose_volumes_came_goes_on_to_the_next_stage(asking: Asking) -> None:
    asking.fails_to_mount()
    await asking.about(PREPARING)
    asking.clock.passed = MOUNT_LATE
    await asking.about(PREPARING)

    assert await asking.about(LOADING) == PodDetail(requeue_after=PROGRESS_EVERY)


async def test_events_that_cannot_be_read_are_no_failure(asking: Asking) -> None:
    asking.api.failing["GET", path_of("Event", NAMESPACE)] = KubeError(503, "overloaded")
    await asking.about(PREPARING)
    asking.clock.passed = MOUNT_LATE

    assert await asking.about(PREPARING) == PodDetail(requeue_after=EVENTS_EVERY)


async def test_a_line_that_is_too_long_does_not_hide_the_one_after_it(asking: Asking) -> None:
    failure = PodFailure("ServerFailed", POD, "it ended", container="kserve-container", has_log=True, attempt="1")
    asking.api.logs[f"{POD}/kserve-container"] = "x" * 10_000_000 + "\nValueError: the cause\n"

    assert await asking.details.log_of(asking.memory, NAMESPACE, failure) == "ValueError: the cause"
    assert len(asking.api.calls) == 2


@pytest.mark.parametrize("text", ["", "unable to retrieve container logs for containerd://0a1b2c\n"])
@pytest.mark.parametrize(
    ("previous", "place", "now"),
    [(False, "kserve-container", "kserve-container/previous"), (True, "kserve-container/previous", "kserve-container")],
    ids=["restarted", "ended-again"],
)
async def test_the_log_of_a_container_that_has_changed_as_it_was_read_is_where_it_is_now(
    asking: Asking, previous: bool, place: str, now: str, text: str
) -> None:
    failure = PodFailure(
        "ServerFailed", POD, "it ended", container="kserve-container", has_log=True, previous=previous, attempt="1"
    )
    asking.api.logs[f"{POD}/{place}"] = text
    asking.api.logs[f"{POD}/{now}"] = "ValueError: the cause\n"

    for _ in range(2):
        assert await asking.details.log_of(asking.memory, NAMESPACE, failure) == "ValueError: the cause"
    assert len(asking.api.calls) == 2


# --- which probe has ended a container ---------------------------------------------------------------------


@pytest.mark.parametrize(("pod", "events", "failure"), PODS_OF_EVENTS.values(), ids=PODS_OF_EVENTS.keys())
async def test_the_events_of_a_pod_that_a_probe_may_have_ended_are_read_once_for_each_instance(
    asking: Asking, pod: dict[str, Any], events: list[dict[str, Any]], failure: PodFailure
) -> None:
    asking.api.recorded.extend(events)
    found = first_failure([pod])
    assert found

    for _ in range(2):
        assert await asking.details.explained(asking.memory, found, [pod]) == failure
    assert len(asking.api.calls) == 1

    await asking.details.explained(asking.memory, replace(found, attempt="containerd://three"), [pod])
    assert len(asking.api.calls) == 2


async def test_no_events_are_read_of_a_server_that_has_ended_by_itself(asking: Asking) -> None:
    pod = a_crashed_pod(POD)
    found = first_failure([pod])

    assert await asking.details.explained(asking.memory, found, [pod]) == found
    assert await asking.details.explained(asking.memory, None, []) is None
    assert asking.api.calls == []
