"""Services that are as large as the API server takes them: the operator keeps its memory, and serves the others."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from isvc_operator.kube.requests import path_of
from tests.hostile.test_operator import apiserver, assets, good, log, reason_of, runtimes
from tests.support.apiserver import ApiServer
from tests.support.limits import memory_limit
from tests.support.namespace import Namespace
from tests.support.operator_process import operator

__all__ = ["apiserver", "assets", "log", "runtimes"]  # fixtures

MIB = 1024 * 1024
LIMIT = 256 * MIB  # the manifests set 384 MiB
_numbers = itertools.count(1)


@pytest.fixture
def limit() -> Iterator[Callable[[], None]]:
    with memory_limit(LIMIT) as limit:
        yield limit


def arguments(name: str) -> dict[str, Any]:
    body = good(name)
    body["spec"]["predictor"]["model"]["args"] = ["x" * 1_300_000]
    return body


def volumes(name: str) -> dict[str, Any]:
    body = good(name)
    body["spec"]["predictor"]["volumes"] = [{"name": f"v{number}", "emptyDir": {}} for number in range(4_700)]
    return body


def a_budget(name: str) -> dict[str, Any]:
    """Not a service, but of a kind that is watched whoever made it."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {f"l{number}": "x" * 60 for number in range(9_000)}}},
    }


def create_all(server: ApiServer, namespace: str, bodies: Iterator[dict[str, Any]]) -> None:
    for body in bodies:
        server.send("POST", path_of(body["kind"], namespace), body)


@pytest.mark.parametrize(
    ("many", "make"), [(45, arguments), (40, volumes), (40, a_budget)], ids=["arguments", "volumes", "budgets"]
)
def test_many_large_objects_do_not_end_the_operator(
    apiserver: ApiServer, limit: Callable[[], None], log: Path, many: int, make: Callable[[str], dict[str, Any]]
) -> None:
    name = f"large-{next(_numbers)}"
    apiserver.create_namespace(name)
    namespace = Namespace(apiserver, name)
    with operator(apiserver, log, limit=limit) as process:
        create_all(apiserver, name, (make(f"large-{number}") for number in range(many)))
        namespace.apply(good("good"))
        namespace.wait_for("deployment", "good-predictor")
        if make is not a_budget:
            assert reason_of(namespace, f"large-{many - 1}") == "InvalidPredictorSpec"
        assert process.poll() is None
    with operator(apiserver, log, limit=limit) as process:
        namespace.apply(good("after-a-restart"))
        namespace.wait_for("deployment", "after-a-restart-predictor")
        assert process.poll() is None
    for kind in ("InferenceService", "PodDisruptionBudget"):
        apiserver.send("DELETE", path_of(kind, name))
    assert "Traceback" not in log.read_text()
