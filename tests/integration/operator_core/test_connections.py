"""The client's connections to a real API server."""

from __future__ import annotations

import asyncio
import gc

import pytest

from isvc_operator.kube.client import connect
from isvc_operator.kube.requests import VERSION, ApiRequest
from tests.support.apiserver import ApiServer

STEPS = 80  # in which a request connects, or is sent and gets the beginning of its response


@pytest.mark.parametrize(("is_connected", "pause"), [(True, 0.0001), (False, 0)], ids=["connected", "connecting"])
def test_a_request_that_is_cancelled_leaves_no_connection_when_the_event_loop_ends(
    apiserver: ApiServer, is_connected: bool, pause: float, recwarn: pytest.WarningsRecorder
) -> None:
    async def cancelled_after(steps: int) -> None:
        async with connect(str(apiserver.kubeconfig)) as api:
            if is_connected:
                await api.send(ApiRequest("GET", VERSION))
            request = asyncio.create_task(api.send(ApiRequest("GET", "/api/v1/pods", (("watch", "true"),))))
            for _ in range(steps):
                await asyncio.sleep(pause)
            request.cancel()
            await asyncio.wait({request})

    for steps in range(STEPS):
        asyncio.run(cancelled_after(steps))
        gc.collect()

    assert [str(warning.message) for warning in recwarn] == []
