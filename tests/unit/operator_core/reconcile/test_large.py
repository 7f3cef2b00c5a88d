"""Services that are too large, or too large together: what is said of them, and what becomes of their children."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.controller.reconcile import RESYNC
from isvc_operator.kube.informer import cache as cache_module
from isvc_operator.limits import LARGE_BYTES, NAMESPACE_BYTES, TEXT_BYTES
from tests.support.builders import NAMESPACE
from tests.support.reconcile_fixture import FIRST_CALLS, KEY, STATUS, Cluster

LARGE: dict[str, Any] = {"args": ["x" * 1000] * 40}
TOO_LARGE: dict[str, Any] = {"args": ["x" * 1000] * 300}


def ready(cluster: Cluster) -> tuple[str, str, str]:
    condition = cluster.condition("Ready")
    return condition["status"], condition["reason"], condition["message"]


async def test_a_service_that_is_too_large_says_so_and_keeps_its_children(serving: Cluster) -> None:
    before = serving.child("Deployment")
    serving.edit_service(generation=2, model=TOO_LARGE)

    assert await serving.reconcile() == [STATUS, "POST events"]
    assert ready(serving) == (
        "False",
        "InvalidPredictorSpec",
        "InferenceService torchserve is not valid: spec.predictor.model.args[262]: with it there are more than "
        f"{TEXT_BYTES} bytes of text; make it smaller",
    )
    assert (serving.service["status"]["observedGeneration"], serving.child("Deployment")) == (2, before)
    await serving.settle()


async def test_it_is_served_again_when_it_is_smaller(serving: Cluster) -> None:
    serving.edit_service(generation=2, model=TOO_LARGE)
    await serving.settle()

    serving.edit_service(generation=3, model={"args": ["small"]})
    await serving.reconcile()

    assert "small" in serving.child("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]


async def test_a_child_that_others_have_made_too_large_is_named(serving: Cluster) -> None:
    child = serving.child("Deployment")
    template = {**child["spec"]["template"], **TOO_LARGE}
    serving.api.put({**child, "spec": {**child["spec"], "template": template}})

    assert await serving.reconcile() == [STATUS, "POST events"]
    assert ready(serving)[2] == (
        "Deployment torchserve-predictor: spec.template.args[262]: with it there are more than "
        f"{TEXT_BYTES} bytes of text; make it smaller"
    )
    await serving.settle()


async def test_a_large_service_is_served_and_nothing_of_it_is_remembered(cluster: Cluster) -> None:
    cluster.edit_service(model=LARGE)

    assert await cluster.reconcile() == FIRST_CALLS
    assert not cluster.reconciler._memories.of(KEY).results
    await cluster.settle()


async def test_one_for_which_its_namespace_has_no_room_waits_until_there_is(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "NAMESPACE_BYTES", LARGE_BYTES)
    cluster.edit_service(model=LARGE)

    assert (await cluster.reconcile(), cluster.again) == ([STATUS, "POST events"], RESYNC)
    assert ready(cluster)[2].endswith(
        f"and with the other objects of services in namespace {NAMESPACE} that have more than {LARGE_BYTES} there are "
        f"more than {LARGE_BYTES}; make them smaller, or delete some"
    )

    monkeypatch.setattr(cache_module, "NAMESPACE_BYTES", NAMESPACE_BYTES)
    before = len(cluster.api.calls)
    await cluster.reconciler.reconcile(KEY)

    assert cluster.calls_since(before) == ["GET inferenceservices/torchserve", *FIRST_CALLS[:-1]]


async def test_one_that_is_gone_by_then_is_not_read(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "NAMESPACE_BYTES", LARGE_BYTES)
    cluster.edit_service(model=LARGE)
    await cluster.reconcile()
    monkeypatch.setattr(cache_module, "NAMESPACE_BYTES", NAMESPACE_BYTES)
    cluster.api.remove("InferenceService", *KEY)

    before = len(cluster.api.calls)
    await cluster.reconciler.reconcile(KEY)

    assert cluster.calls_since(before) == ["GET inferenceservices/torchserve", STATUS]
