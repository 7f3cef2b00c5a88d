"""Whether the cluster has an optional kind: asked once per period."""

from __future__ import annotations

import pytest

from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.objects import DISCOVERY_TTL, Discovery
from tests.support.fakes import FakeKubeApi, Seconds

GROUP = "/apis/keda.sh/v1alpha1"


async def test_a_missing_kind_is_found_once_it_is_installed() -> None:
    api, clock = FakeKubeApi(), Seconds()
    discovery = Discovery(api, clock)

    assert not await discovery.has("ScaledObject")
    api.objects[GROUP] = {"kind": "APIResourceList"}
    assert not await discovery.has("ScaledObject")
    clock.passed += DISCOVERY_TTL

    assert await discovery.has("ScaledObject")
    assert [call.path for call in api.calls] == [GROUP, GROUP]


async def test_an_api_server_that_does_not_say_is_an_error() -> None:
    api = FakeKubeApi()
    api.failing["GET", GROUP] = KubeError(503, "overloaded")

    with pytest.raises(KubeError):
        await Discovery(api, Seconds()).has("ScaledObject")
