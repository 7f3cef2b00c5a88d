"""Whose fields are whose, once a child of KServe's controller has been taken over."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.controller.adoption import adopt_fields, adopted_fields
from isvc_operator.kube.errors import Conflict
from isvc_operator.kube.requests import path_of
from isvc_operator.manifests import name_of
from tests.support.builders import NAMESPACE, SERVICE_UID, a_child
from tests.support.fakes import FakeKubeApi

MADE = {"f:metadata": {"f:ownerReferences": {".": {}, f'k:{{"uid":"{SERVICE_UID}"}}': {}}}}
FIXED = a_child(spec={"replicas": 1})


def an_entry(manager: str, fields: dict[str, Any], operation: str = "Update", **others: Any) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "apps/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **others,
    }


def test_what_the_controller_set_in_several_ways_becomes_one_entry() -> None:
    entries = [
        an_entry("manager", {**MADE, "f:spec": {"f:template": {"f:spec": {}}}}),
        an_entry("manager", {"f:spec": {"f:template": {"f:metadata": {}}}}, "Apply"),
        an_entry("manager", {"f:status": {}}, subresource="status"),
    ]
    fields = {**MADE, "f:spec": {"f:template": {"f:spec": {}, "f:metadata": {}}}}

    assert adopted_fields(entries, FIXED) == [an_entry("isvc-operator", fields, "Apply"), entries[2]]


def test_a_child_of_an_unknown_manager_is_not_changed() -> None:
    entries = [an_entry("somebody", {"f:spec": {}})]

    assert adopted_fields(entries, FIXED) == entries


def test_a_child_of_a_kind_without_a_spec_is_adopted() -> None:
    child = a_child()
    del child["spec"]

    assert adopted_fields([an_entry("manager", MADE)], child) == [an_entry("isvc-operator", MADE, "Apply")]


async def test_a_child_that_somebody_keeps_changing_is_left_for_the_next_attempt() -> None:
    api = FakeKubeApi()
    child = a_child()
    api.put({**child, "metadata": {**child["metadata"], "managedFields": [an_entry("manager", MADE)]}})
    api.failing["PATCH", path_of(child["kind"], NAMESPACE, name_of(child))] = Conflict(409, "it has changed")

    with pytest.raises(Conflict):
        await adopt_fields(api, child)

    assert [call.method for call in api.calls] == ["GET", "PATCH"] * 3
