"""What the API server is asked before it is known what a file would change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from isvc.diff.dry_run import DryRun
from isvc.diff.errors import DiffFailed
from tests.support.local_services import parsed, service

LAST = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.mark.parametrize("last", ["{", "[]", '{"spec":' * 100_000], ids=["broken", "a list", "deep"])
async def test_an_object_whose_last_configuration_cannot_be_read_is_named(last: str) -> None:
    class Api:
        async def send(self, _: object) -> str:
            return json.dumps({**service(), "metadata": {"name": "first", "annotations": {LAST: last}}})

    api: Any = Api()
    with pytest.raises(DiffFailed) as failed:
        [change async for change in DryRun(api, api, "isvc-operator").changes(parsed(service()))]

    assert str(failed.value) == (
        f"my.yaml: InferenceService first has no JSON object in its annotation {LAST}; remove the annotation"
    )
