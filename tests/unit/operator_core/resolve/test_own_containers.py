"""The user's own containers: which one is the server, and its defaults."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.config import ResourceConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.own_containers import completed, server_first

Container = dict[str, Any]


def names(containers: list[Container], field: str = "spec.predictor") -> list[str]:
    return [item["name"] for item in server_first(containers, field)]


SERVERS: dict[str, tuple[list[Container], list[str]]] = {
    "one that has no name": ([{}], ["kserve-container"]),
    "one of another name": ([{"name": "mine"}], ["kserve-container"]),
    "the first, without a name": ([{}, {"name": "logs"}], ["kserve-container", "logs"]),
    "the one that has the name": ([{"name": "logs"}, {"name": "kserve-container"}], ["kserve-container", "logs"]),
}


@pytest.mark.parametrize(("containers", "expected"), SERVERS.values(), ids=SERVERS.keys())
def test_the_server_comes_first_under_kserves_name(containers: list[Container], expected: list[str]) -> None:
    assert names(containers) == expected


def test_several_containers_of_a_predictor_need_the_name() -> None:
    with pytest.raises(InvalidSpec) as caught:
        names([{"name": "one"}, {"name": "other"}])

    assert str(caught.value) == (
        "spec.predictor has several containers, and none of them is named kserve-container; give that name to the "
        "server"
    )


def test_of_a_transformers_containers_the_first_serves() -> None:
    assert names([{"name": "one"}, {"name": "other"}], "spec.transformer") == ["kserve-container", "other"]


def test_no_container_at_all_is_refused() -> None:
    with pytest.raises(InvalidSpec, match=r"spec\.transformer has no containers"):
        names([], "spec.transformer")


# --- resources -----------------------------------------------------------------------------------------


def resources(given: Container, config: ResourceConfig | None = None) -> Any:
    container = {"name": "kserve-container", "resources": given}
    return completed(container, {}, config or ResourceConfig())["resources"]


def test_resources_are_kserves_where_nothing_is_said() -> None:
    assert resources({}) == {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}}


@pytest.mark.parametrize("kind", ["requests", "limits"])
def test_one_that_is_given_gets_no_default_that_could_contradict_it(kind: str) -> None:
    found = resources({kind: {"memory": "3Gi"}})

    assert found == {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}, kind: {"memory": "3Gi", "cpu": "1"}}


def test_a_default_can_be_left_out() -> None:
    assert resources({}, ResourceConfig(cpu_limit="", memory_limit="", memory_request="")) == {"requests": {"cpu": "1"}}


def test_what_the_user_wrote_is_not_changed() -> None:
    given: Container = {"limits": {"memory": "1Gi"}}
    resources(given)

    assert given == {"limits": {"memory": "1Gi"}}


# --- security ------------------------------------------------------------------------------------------

NO_PRIVILEGES = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
CONTEXTS: dict[str, tuple[Container, Container, Container]] = {
    "nothing": ({}, {}, {**NO_PRIVILEGES, "runAsNonRoot": True}),
    "root": ({"runAsUser": 0}, {}, {**NO_PRIVILEGES, "runAsUser": 0}),
    "root, by the pod": ({}, {"runAsUser": 0}, NO_PRIVILEGES),
    "a user, in a pod of root": (
        {"runAsUser": 7},
        {"runAsUser": 0},
        {**NO_PRIVILEGES, "runAsNonRoot": True, "runAsUser": 7},
    ),
    "whoever the image names": ({"runAsNonRoot": False}, {}, {**NO_PRIVILEGES, "runAsNonRoot": False}),
    "the same, by the pod": ({}, {"runAsNonRoot": False}, NO_PRIVILEGES),
    "capabilities": (
        {"capabilities": {"add": ["SYS_ADMIN"]}},
        {},
        {"capabilities": {"add": ["SYS_ADMIN"]}, "runAsNonRoot": True},
    ),
    "privileges": ({"privileged": True}, {}, {"privileged": True, "runAsNonRoot": True}),
}


@pytest.mark.parametrize(("own", "pods", "expected"), CONTEXTS.values(), ids=CONTEXTS.keys())
def test_a_server_is_restricted_unless_the_user_requests(own: Container, pods: Container, expected: Container) -> None:
    container = {"name": "kserve-container", "securityContext": own}

    assert completed(container, {"securityContext": pods}, ResourceConfig())["securityContext"] == expected


# --- the rest ------------------------------------------------------------------------------------------


def test_a_server_keeps_running_while_proxies_notice_its_end() -> None:
    mine = {"preStop": {"exec": {"command": ["drain"]}}}

    assert completed({"name": "kserve-container"}, {}, ResourceConfig())["lifecycle"] == {
        "preStop": {"sleep": {"seconds": 5}}
    }
    assert completed({"name": "kserve-container", "lifecycle": mine}, {}, ResourceConfig())["lifecycle"] == mine


@pytest.mark.parametrize(("grace", "hooks"), [(3, {"preStop": {"sleep": {"seconds": 3}}}), (0, {})])
def test_a_server_keeps_running_no_longer_than_its_grace_period(grace: int, hooks: Container) -> None:
    pod = {"terminationGracePeriodSeconds": grace}

    assert completed({"name": "kserve-container"}, pod, ResourceConfig())["lifecycle"] == hooks


def test_a_hook_at_the_start_leaves_the_one_before_the_end() -> None:
    warm = {"postStart": {"exec": {"command": ["warm"]}}}

    assert completed({"name": "kserve-container", "lifecycle": warm}, {}, ResourceConfig())["lifecycle"] == {
        "preStop": {"sleep": {"seconds": 5}},
        **warm,
    }


def test_a_helper_stays_as_it_was_written() -> None:
    assert completed({"name": "logs", "image": "l"}, {}, ResourceConfig()) == {"name": "logs", "image": "l"}
