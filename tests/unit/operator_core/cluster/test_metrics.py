"""Metrics of pods: what a pod says, and not more of it than is wanted."""

from __future__ import annotations

import pytest

from isvc.limits import DASHBOARD_METRICS_BYTES
from isvc.source.errors import NotReachable
from isvc.source.metrics import through_the_api_server
from isvc.source.proxy_targets import ProxyTarget
from isvc_operator.kube.errors import ResponseTooLarge
from tests.support.builders import a_ready_pod
from tests.support.stub_session import StubSession, api_of

PLACE = ProxyTarget("torchserve-predictor-1-a", 8080)


async def test_metrics_are_read_through_the_api_server() -> None:
    session = StubSession(body=b"up 1\n")

    assert await through_the_api_server(api_of(session))(a_ready_pod(), PLACE) == "up 1\n"
    ((method, url, _, _),) = session.sent
    assert (method, url.partition("?")[0]) == (
        "GET",
        "https://api/api/v1/namespaces/models/pods/http:torchserve-predictor-1-a:8080/proxy/metrics",
    )


@pytest.mark.parametrize("status", [401, 404, 503])
async def test_a_pod_that_has_none_holds_nothing_else_back(status: int) -> None:
    session = StubSession(status, headers={"Retry-After": "30"})
    api = api_of(session)

    with pytest.raises(NotReachable, match=f"HTTP {status}"):
        await through_the_api_server(api)(a_ready_pod(), PLACE)
    assert (api.pause.left, len(session.sent)) == (0, 1)


async def test_not_more_is_read_than_metrics_may_have() -> None:
    session = StubSession(body=b"x" * (DASHBOARD_METRICS_BYTES + 1))

    with pytest.raises(ResponseTooLarge):
        await through_the_api_server(api_of(session))(a_ready_pod(), PLACE)
