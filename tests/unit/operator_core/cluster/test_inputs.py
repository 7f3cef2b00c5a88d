"""What is read once for a decision, with a person's own rights."""

from __future__ import annotations

import json

from isvc.source.inputs import list_all
from isvc_operator.api.kinds import kind_named
from isvc_operator.kube.requests import ApiRequest

PODS = "/api/v1/namespaces/models/pods"
OF_SERVICES = (("limit", "500"), ("labelSelector", "serving.kserve.io/inferenceservice"))


class Paged:
    """An API server with two pages of pods."""

    def __init__(self) -> None:
        self.asked: list[ApiRequest] = []

    async def send(self, request: ApiRequest) -> str:
        self.asked.append(request)
        page = dict(request.query).get("continue", "")
        items = [{"metadata": {"name": page or "first"}}]
        return json.dumps({"kind": "PodList", "metadata": {} if page else {"continue": "next"}, "items": items})


async def test_what_carries_a_services_label_is_listed_in_pages() -> None:
    api = Paged()

    assert await list_all(api, kind_named("Pod"), "models") == [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}} for name in ("first", "next")
    ]
    assert api.asked == [
        ApiRequest("GET", PODS, OF_SERVICES), ApiRequest("GET", PODS, (*OF_SERVICES, ("continue", "next")))
    ]  # fmt: skip
