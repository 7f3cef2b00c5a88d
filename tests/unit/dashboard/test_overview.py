"""What the first tab of a service's page says."""

from __future__ import annotations

from dataclasses import replace

import aiohttp

from isvc.view.source import Related
from tests.support.fake_services import FakeServices
from tests.support.fake_source import FakeSource

CAUSE = "no licence"
SERVICE = FakeServices()


def with_condition(related: Related, type_: str, message: str) -> Related:
    """The service with one more condition that is False."""
    status = related.service["status"]
    added = {**status["conditions"][0], "type": type_, "status": "False", "reason": "ServerFailed", "message": message}
    changed = {**status, "conditions": [*status["conditions"], added]}
    return replace(related, service={**related.service, "status": changed})


async def test_a_cause_is_on_the_page_once(viewer: aiohttp.ClientSession, source: FakeSource) -> None:
    """The conditions have it with the names of the pod and of the container before it."""
    told = with_condition(
        SERVICE.failed(CAUSE), "TransformerReady", f"pod x, container c ended with exit code 1: {CAUSE}"
    )
    source.put(with_condition(told, "IngressReady", "the Gateway does not accept it"))

    async with viewer.get("/services/models/torchserve") as response:
        page = await response.text()

    assert (page.count(CAUSE), page.count("see above"), page.count("does not accept it")) == (1, 3, 1)
