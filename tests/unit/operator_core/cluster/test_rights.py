"""What is watched, and what people are told that they may not see or do."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from isvc.source.rights import NOTES, SHOWN, may_list, notes_of, rights_of
from isvc_operator.kube.requests import ApiRequest

Right = tuple[str, str]  # a verb, and a resource


@dataclass
class Reviews:
    """A KubeApi that allows all but some."""

    denied: frozenset[Right] = frozenset()
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    async def send(self, request: ApiRequest) -> str:
        body: Any = request.body
        asked = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        self.asked.append((asked["verb"], resource, asked.get("namespace", "")))
        return json.dumps({"status": {"allowed": (asked["verb"], resource) not in self.denied}})


@pytest.mark.parametrize(
    ("denied", "sends", "notes"),
    [
        ((), True, []),
        ((("get", "pods/log"),), False, ["you may not get pods/log, so logs are not shown in namespace models"]),
        ((("create", "services/proxy"), ("get", "pods/proxy")), False, []),
        (
            (("create", "services/proxy"),),
            True,
            ["you may not get and create services/proxy, so requests cannot be sent to services in namespace models"],
        ),
        (
            (("get", "pods/proxy"),),
            True,
            ["you may not get pods/proxy, so rates and charts are empty in namespace models"],
        ),
        ((("list", "pods"),), False, ["you may not list and watch pods in namespace models"]),
        ((("list", "networkpolicies"), ("watch", "poddisruptionbudgets"), ("list", "httproutes")), True, []),
    ],
)
async def test_what_may_not_be_seen_or_done_is_named(denied: tuple[Right, ...], sends: bool, notes: list[str]) -> None:
    assert (await rights_of(Reviews(frozenset(denied)), ("models",), sends=sends)).hidden == notes


async def test_the_objects_that_were_rendered_are_watched_and_those_of_others_are_not() -> None:
    rights = await rights_of(Reviews(), ("models",))

    watched = {item.kind.name: item.kind for item in rights.collections}
    assert {"NetworkPolicy", "PodDisruptionBudget", "Ingress", "HorizontalPodAutoscaler"} <= watched.keys()
    assert all(watched[name].selected_by_label for name in ("NetworkPolicy", "PodDisruptionBudget"))


async def test_what_a_person_may_do_is_asked_in_the_whole_cluster_first() -> None:
    api = Reviews()
    places = await may_list(api, ("models", "others"))

    assert places["models"] == places["others"] >= SHOWN | NOTES.keys()
    assert {namespace for _, _, namespace in api.asked} == {""}


async def test_without_services_nothing_else_is_asked_for() -> None:
    api = Reviews(frozenset({("list", "inferenceservices")}))

    assert await may_list(api, ("models",)) == {"models": frozenset()}
    assert [asked for asked in api.asked if asked[2]] == [("list", "inferenceservices", "models")]


def test_a_person_is_told_what_is_missing_and_where_but_not_of_optional_kinds() -> None:
    everything = SHOWN | NOTES.keys()
    missing = frozenset(("ClusterServingRuntime", "Log", "HTTPRoute", "NetworkPolicy", "ScaledObject"))

    assert notes_of({"b": everything - missing, "a": everything - missing - {"Pod"}, "c": everything}) == [
        "you may not list clusterservingruntimes",
        "you may not get pods/log, so logs are not shown (namespace a, b)",
        "you may not list pods (namespace a)",
    ]
