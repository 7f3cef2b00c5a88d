"""A service that was ready and stops serving is told from one that starts, with what happened and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.breaking_services import a_breaking_service, a_probe, events_on, pods_of, tell
from tests.support.diagnose_output import assert_diagnosed
from tests.support.namespace import Namespace
from tests.support.waiting import eventually

WITHIN = 180.0  # seconds; the pods of other tests may fill the node for a while
SILENT = "its readiness probe has failed since"


@dataclass(frozen=True)
class Outage:
    """What a server does; the reason and words of the cause that are told then; and fields of its service."""

    code: str
    reason: str
    words: str
    container: dict[str, Any] = field(default_factory=dict)
    predictor: dict[str, Any] = field(default_factory=dict)


OUTAGES: dict[str, Outage] = {
    "hangs": Outage("os.kill(os.getpid(), signal.SIGSTOP)", "ReadinessLost", SILENT),
    "one-of-three": Outage("os.remove('ready')", "ReadinessLost", SILENT, predictor={"minReplicas": 3}),
    "memory": Outage("b'x' * 2**30", "ServerFailed", "the container used more memory than its limit"),
    "killed": Outage("os.kill(os.getpid(), signal.SIGKILL)", "ServerFailed", "SIGKILL ended it"),
    "not-live": Outage(
        "[pathlib.Path(name).unlink(missing_ok=True) for name in ('live', 'ready')]",
        "ServerFailed",
        "it was killed after its liveness probe failed: HTTP probe failed with statuscode: 404",
        # On a loaded node, one second may end before it has answered.
        container={"livenessProbe": {**a_probe("/live"), "initialDelaySeconds": 5, "timeoutSeconds": 10}},
    ),
}
OTHERS = ("unready", "deleted", "evicted")


@pytest.fixture(scope="module")
def services(namespace: Namespace) -> Iterator[Namespace]:
    """A namespace with all of them, Ready at first. A node takes a minute to see that a volume is too large."""
    for name in OTHERS:
        namespace.apply(a_breaking_service(name))
    for name, outage in OUTAGES.items():
        namespace.apply(a_breaking_service(name, outage.container, **outage.predictor))
    for name in (*OTHERS, *OUTAGES):
        namespace.wait_for_condition("Ready", "True", service=name, within=WITHIN)
    tell(namespace, *pods_of(namespace, "evicted"), "pathlib.Path('large').write_bytes(bytes(2**26))")
    yield namespace
    namespace.kubectl("delete", "isvc", "--all", "--wait=false")


@pytest.mark.parametrize("name", OUTAGES)
def test_a_server_that_breaks_is_named_until_its_pod_is_replaced(services: Namespace, name: str) -> None:
    outage, (broken, *others) = OUTAGES[name], pods_of(services, name)

    tell(services, broken, outage.code)

    condition = services.wait_for_condition("Ready", "False", outage.reason, name, WITHIN)
    assert ("Requests are still served (2 pods available)" in condition["message"]) is bool(others)
    eventually(
        lambda: outage.words in services.condition("Ready", name)["message"],
        "the cause is told",
        WITHIN,
        lambda: services.condition("Ready", name)["message"],
    )
    assert_diagnosed(services, name, outage.reason, outage.words)
    assert ("Warning", outage.reason) in events_on(services, name)

    services.kubectl("delete", broken, "--wait=false", "--grace-period=1")

    services.wait_for_condition("Ready", "True", service=name, within=WITHIN)


def test_a_server_that_hangs_has_lost_its_readiness_until_it_responds_again(services: Namespace) -> None:
    (pod,) = pods_of(services, "unready")

    tell(services, pod, "os.rename('ready', 'gone')")

    services.wait_for_condition("Ready", "False", "ReadinessLost", "unready")
    answer = f"{SILENT}: HTTP probe failed with statuscode: 404"
    eventually(lambda: answer in services.condition("Ready", "unready")["message"], "the probe's answer is told")

    services.kubectl("exec", pod, "--", "mv", "/state/gone", "/state/ready")

    services.wait_for_condition("Ready", "True", service="unready")


def test_a_pod_that_is_deleted_leaves_too_few_until_it_is_replaced(services: Namespace) -> None:
    (pod,) = pods_of(services, "deleted")

    services.kubectl("delete", pod, "--wait=false", "--grace-period=1")

    services.wait_for_condition("Ready", "False", "MinimumReplicasUnavailable", "deleted")
    assert_diagnosed(services, "deleted", "MinimumReplicasUnavailable", "fewer pods serve requests than before")
    assert ("Warning", "MinimumReplicasUnavailable") in events_on(services, "deleted")
    services.wait_for_condition("Ready", "True", service="deleted", within=WITHIN)


def test_a_pod_that_its_node_evicts_is_replaced(services: Namespace) -> None:
    def told() -> set[str]:
        return {reason for type_, reason in events_on(services, "evicted") if type_ == "Warning"}

    eventually(told, "the eviction is told", WITHIN)
    services.wait_for_condition("Ready", "True", service="evicted", within=WITHIN)

    assert told() <= {"Evicted", "MinimumReplicasUnavailable"}
