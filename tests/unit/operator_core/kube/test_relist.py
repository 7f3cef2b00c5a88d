"""What the API server has no more is forgotten, and nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.kube import requests
from isvc_operator.kube.cache import Cache
from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.relist import remove_deleted
from isvc_operator.kube.requests import ApiRequest

HERE = "models"


def a_pod(name: str, version: int = 1, namespace: str = HERE) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", "resourceVersion": str(version)}
    return {"kind": "Pod", "metadata": metadata}


@dataclass
class Lists:
    """An API server that returns lists of resource version ``version``, page by page."""

    pages: list[list[str]]
    version: int = 10
    asked: list[ApiRequest] = field(default_factory=list)

    async def send(self, request: ApiRequest) -> str:
        number = len(self.asked)
        self.asked.append(request)
        more = {"continue": f"page-{number + 1}"} if number + 1 < len(self.pages) else {}
        items = [{"metadata": {"uid": f"uid-of-{name}"}} for name in self.pages[number]]
        return json.dumps({"metadata": {"resourceVersion": str(self.version), **more}, "items": items or None})


class Refusing:
    async def send(self, request: ApiRequest) -> str:
        raise KubeError(410, "the continue token is too old")


def cache_with(*items: dict[str, Any]) -> Cache:
    cache = Cache(LABEL_SERVICE)
    for item in items:
        cache.put(item)
    return cache


async def test_an_object_that_is_not_listed_is_removed_and_returned() -> None:
    cache = cache_with(a_pod("there"), a_pod("gone"))

    assert await remove_deleted(Lists([["there"]]), cache, "Pod") == [a_pod("gone")]
    assert list(cache.of_kind("Pod")) == [a_pod("there")]


async def test_a_list_of_nothing_leaves_nothing() -> None:
    cache = cache_with(a_pod("gone"))

    assert await remove_deleted(Lists([[]]), cache, "Pod") == [a_pod("gone")]
    assert list(cache.of_kind("Pod")) == []


async def test_all_pages_are_read_before_anything_is_removed() -> None:
    api, cache = Lists([["a"], ["b"]]), cache_with(a_pod("a"), a_pod("b"))

    assert await remove_deleted(api, cache, "Pod") == []
    assert api.asked == [requests.list_metadata("Pod", ""), requests.list_metadata("Pod", "", "page-1")]


async def test_an_object_that_is_newer_than_the_list_is_kept() -> None:
    cache = cache_with(a_pod("new", version=11))

    assert await remove_deleted(Lists([[]], version=10), cache, "Pod") == []
    assert list(cache.of_kind("Pod")) == [a_pod("new", version=11)]


async def test_a_list_of_one_namespace_says_nothing_of_the_others() -> None:
    api, elsewhere = Lists([[]]), a_pod("b", namespace="elsewhere")
    cache = cache_with(a_pod("a"), elsewhere)

    assert await remove_deleted(api, cache, "Pod", namespace=HERE) == [a_pod("a")]
    assert list(cache.of_kind("Pod")) == [elsewhere]
    assert api.asked == [requests.list_metadata("Pod", HERE)]


async def test_what_cannot_be_listed_is_kept() -> None:
    cache = cache_with(a_pod("a"))

    with pytest.raises(KubeError, match="too old"):
        await remove_deleted(Refusing(), cache, "Pod")
    assert list(cache.of_kind("Pod")) == [a_pod("a")]
