"""Whether the cluster has an optional kind: asked once per period."""

from __future__ import annotations

import pytest

from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.objects import DISCOVERY_TTL, ObjectReader
from tests.support.fakes import FakeKubeApi, Seconds

GROUP = "/apis/keda.sh/v1alpha1"


async def test_a_missing_kind_is_found_once_it_is_installed() -> None:
    api, clock = FakeKubeApi(), Seconds()
    reader = ObjectReader(api, clock)

    assert not await reader.has_kind("ScaledObject")
    api.objects[GROUP] = {"kind": "APIResourceList"}
    assert not await reader.has_kind("ScaledObject")
    clock.passed += DISCOVERY_TTL

    assert await reader.has_kind("ScaledObject")
    assert [call.path for call in api.calls] == [GROUP, GROUP]


async def test_an_api_server_that_does_not_say_is_an_error() -> None:
    api = FakeKubeApi()
    api.failing["GET", GROUP] = KubeError(503, "overloaded")

    with pytest.raises(KubeError):
        await ObjectReader(api, Seconds()).has_kind("ScaledObject")
