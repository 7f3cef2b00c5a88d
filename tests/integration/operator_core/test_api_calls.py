"""How often the operator talks to the API server, counted in that server's audit log."""

from __future__ import annotations

from pathlib import Path

from tests.support.apiserver import ApiServer, Call, install_runtime
from tests.support.namespace import Namespace, story_service
from tests.support.operator_process import OPERATOR, WATCHES, operator
from tests.support.waiting import eventually


def test_a_new_service_costs_three_creations_and_one_status(
    running_operator: None, apiserver: ApiServer, namespace: Namespace
) -> None:
    since = apiserver.position()
    namespace.apply_story()
    namespace.wait_for_condition("Ready", "Unknown")
    calls = eventually(
        lambda: found if len(found := calls_in(apiserver, namespace, since)) >= 4 else None, "four calls were made"
    )
    assert sorted((call.verb, call.resource, call.subresource) for call in calls) == [
        ("create", "deployments", ""),
        ("create", "ingresses", ""),
        ("create", "services", ""),
        ("patch", "inferenceservices", "status"),
    ]


def test_a_change_that_needs_no_write_causes_none(
    running_operator: None, apiserver: ApiServer, namespace: Namespace, another_namespace: Namespace
) -> None:
    make_ready(namespace)
    since = apiserver.position()
    namespace.kubectl("label", "deployment", "torchserve-predictor", "someone/else=was-here")
    namespace.kubectl("annotate", "service", "torchserve-predictor", "someone/else=was-here")
    namespace.kubectl("annotate", "clusterservingruntime", "kserve-torchserve", "someone/else=was-here", "--overwrite")
    work_on_something_else(another_namespace)
    assert calls_in(apiserver, namespace, since) == []


def test_fractions_of_resources_are_written_once(
    running_operator: None, apiserver: ApiServer, namespace: Namespace, another_namespace: Namespace
) -> None:
    resources = {"limits": {"cpu": 0.5, "memory": 1.5e9}, "requests": {"cpu": 0.12345, "memory": "0.5G"}}
    namespace.apply_story(model=story_service()["spec"]["predictor"]["model"] | {"resources": resources})
    namespace.play_finished_rollout()
    namespace.wait_until_ready()
    since = apiserver.position()
    namespace.kubectl("annotate", "service", "torchserve-predictor", "someone/else=was-here")
    work_on_something_else(another_namespace)
    assert calls_in(apiserver, namespace, since) == []
    pod = namespace.wait_for("deployment", "torchserve-predictor")["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"] == {
        "limits": {"cpu": "500m", "memory": "1500M"},
        "requests": {"cpu": "124m", "memory": "500M"},
    }


def test_a_restart_lists_and_watches_and_writes_nothing(
    apiserver: ApiServer, namespace: Namespace, another_namespace: Namespace, tmp_path: Path
) -> None:
    install_runtime(apiserver)
    with operator(apiserver, tmp_path / "first.log"):
        make_ready(namespace)
    since = apiserver.position()
    with operator(apiserver, tmp_path / "second.log"):
        work_on_something_else(another_namespace)
    assert calls_in(apiserver, namespace, since) == []
    assert {call.verb for call in apiserver.calls(WATCHES, since)} == {"list", "watch"}


def make_ready(namespace: Namespace) -> None:
    namespace.apply_story()
    namespace.play_finished_rollout()
    namespace.wait_until_ready()


def work_on_something_else(namespace: Namespace) -> None:
    """The service that is created last is reconciled last: after it, all others are done."""
    make_ready(namespace)


def calls_in(apiserver: ApiServer, namespace: Namespace, since: int) -> list[Call]:
    return [call for call in apiserver.calls(OPERATOR, since) if call.namespace == namespace.name]
