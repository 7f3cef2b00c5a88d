"""How long pods may take to end, and what their servers know about it."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.limits import GRACE_SECONDS
from isvc_operator.manifests import Container
from isvc_operator.resolve.defaults import with_drain_seconds, with_grace_period, with_pre_stop, within_grace_period
from tests.support.builders import a_resolved, a_runtime, a_service

GRACE = "terminationGracePeriodSeconds"

PERIODS: dict[str, tuple[dict[str, Any], int | None, int | None]] = {
    "no timeout: Kubernetes' 30 s": ({}, None, None),
    "a timeout without effect": ({}, 0, None),
    "a short timeout": ({}, 20, None),
    "a long timeout": ({}, 300, 310),
    "a timeout beyond the limit": ({}, 1_000_000, GRACE_SECONDS),
    "the user's own": ({GRACE: 60}, 300, 60),
}


@pytest.mark.parametrize(("pod", "timeout", "expected"), PERIODS.values(), ids=PERIODS.keys())
def test_a_pod_has_as_long_as_its_requests_may_take(
    pod: dict[str, Any], timeout: int | None, expected: int | None
) -> None:
    assert with_grace_period(pod, timeout).get(GRACE) == expected


def slept(container: Container) -> int:
    seconds: int = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    return seconds


def test_a_server_runs_on_while_proxies_notice_its_end() -> None:
    assert slept(with_pre_stop({"name": "kserve-container"}, {})) == 5


@pytest.mark.parametrize(("timeout", "grace"), [({}, 35), ({"timeout": 300}, 315)])
def test_a_server_runs_on_while_the_transformer_in_its_pod_finishes(timeout: dict[str, int], grace: int) -> None:
    transformer = {"name": "transformer-container", "image": "t"}

    predictor = a_resolved(a_service(predictor={"containers": [transformer], **timeout})).predictor

    assert [slept(item) for item in (predictor.server, *predictor.pod["containers"])] == [10, 5]
    assert predictor.pod[GRACE] == grace


def test_a_hook_of_the_container_stays() -> None:
    mine = {"lifecycle": {"preStop": {"exec": {"command": ["drain"]}}}}

    assert with_pre_stop(mine, {}) == mine


@pytest.mark.parametrize(("grace", "seconds"), [(60, "50"), (310, "300"), (11, "1"), (3, "1")])
def test_a_server_is_told_how_long_its_requests_have(grace: int, seconds: str) -> None:
    pod = {GRACE: grace}

    told = with_drain_seconds(with_pre_stop({"name": "kserve-container"}, pod), pod)

    assert told["env"] == [{"name": "GRACE_PERIOD", "value": seconds}]


def test_a_time_that_is_set_is_kept_unless_it_is_a_runtimes() -> None:
    server = {"env": [{"name": "GRACE_PERIOD", "value": "7"}]}

    assert with_drain_seconds(server, {GRACE: 60}) == server
    assert with_drain_seconds(server, {GRACE: 60}, over=True)["env"][0]["value"] == "55"
    assert with_drain_seconds(server, {}, over=True) == server


SLEEPS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "none asked for": ({}, {"preStop": {"sleep": {"seconds": 5}}}),
    "a longer one": ({"terminationGracePeriodSeconds": 60}, {"preStop": {"sleep": {"seconds": 5}}}),
    "a shorter one": ({"terminationGracePeriodSeconds": 3}, {"preStop": {"sleep": {"seconds": 3}}}),
    "none at all": ({"terminationGracePeriodSeconds": 0}, {}),
    "one that Kubernetes replaces by a second": ({"terminationGracePeriodSeconds": -1}, {}),
}


@pytest.mark.parametrize(("pod", "hooks"), SLEEPS.values(), ids=SLEEPS.keys())
def test_a_sleep_before_the_end_fits_in_the_grace_period(pod: dict[str, Any], hooks: dict[str, Any]) -> None:
    start = {"postStart": {"exec": {"command": ["warm"]}}}
    container = {"name": "c", "lifecycle": {**start, "preStop": {"sleep": {"seconds": 5}}}}

    assert within_grace_period(container, pod) == {"name": "c", "lifecycle": {**start, **hooks}}


def test_another_action_before_the_end_may_take_the_whole_grace_period() -> None:
    container = {"name": "c", "lifecycle": {"preStop": {"exec": {"command": ["drain"]}}}}

    assert within_grace_period(container, {"terminationGracePeriodSeconds": 3}) == container


def test_a_server_is_told_what_the_hook_of_its_user_leaves_of_the_grace_period() -> None:
    runtime = a_runtime(container={"env": [{"name": "GRACE_PERIOD", "value": "20"}]})
    hook = {"preStop": {"sleep": {"seconds": 15}}}

    server = a_resolved(a_service(model={"lifecycle": hook}, predictor={GRACE: 60}), runtime).predictor.server

    assert server["lifecycle"] == hook
    assert {"name": "GRACE_PERIOD", "value": "40"} in server["env"]
