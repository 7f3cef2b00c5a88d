"""What pods and the user's own servers get where nothing is set."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.config import ResourceConfig
from isvc_operator.resolve.defaults import restricted
from tests.support.builders import a_resolved, a_service

Container = dict[str, Any]


# --- resources -----------------------------------------------------------------------------------------


def resources(given: Container, config: ResourceConfig | None = None) -> Any:
    return restricted({"resources": given}, {}, config or ResourceConfig())["resources"]


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
    assert restricted({"securityContext": own}, pods, ResourceConfig())["securityContext"] == expected


# --- the rest ------------------------------------------------------------------------------------------


def test_a_helper_stays_as_it_was_written_but_for_the_services_name() -> None:
    containers = [{"name": "kserve-container", "image": "s"}, {"name": "logs", "image": "l"}]

    predictor = a_resolved(a_service(model=None, predictor={"containers": containers})).predictor

    env = [{"name": "INFERENCE_SERVICE_NAME", "value": "torchserve"}]
    assert predictor.pod["containers"] == [{"name": "logs", "image": "l", "env": env}]
