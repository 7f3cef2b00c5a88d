"""What is watched, by what the API server says that the service account may watch."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field, replace

import pytest

from isvc_operator.api.kinds import KINDS, kind_named
from isvc_operator.errors import ConfigError
from isvc_operator.kube.errors import KubeError, RequestRefused
from isvc_operator.kube.informer.scope import Scope, scope_of
from isvc_operator.kube.informer.watching import Collection
from isvc_operator.kube.requests import ApiRequest

EVERYTHING = tuple(kind for kind in KINDS if kind.watched)
OF_NAMESPACES = tuple(kind for kind in EVERYTHING if kind.namespaced)
RUNTIMES, CONTAINERS = "clusterservingruntimes", "clusterstoragecontainers"
DISCOVERY = ("customresourcedefinitions", "namespaces")


@dataclass
class Authorizer:
    """Answers access reviews: these verbs are allowed on these resources."""

    resources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ("list", "watch")
    error: KubeError | None = None
    asked: list[ApiRequest] = field(default_factory=list)

    async def send(self, request: ApiRequest) -> str:
        self.asked.append(request)
        if self.error:
            raise self.error
        asked = (request.body or {})["spec"]["resourceAttributes"]
        allowed = asked["resource"] in self.resources and asked["verb"] in self.verbs
        return json.dumps({"status": {"allowed": allowed}})


async def test_in_the_whole_cluster_everything_is_watched_and_nothing_is_asked() -> None:
    api = Authorizer()

    assert await scope_of(api, ()) == Scope((), EVERYTHING, notices_crds=True)
    assert api.asked == []


async def test_a_role_is_enough_for_what_namespaces_have(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    assert await scope_of(Authorizer(), ("team",)) == Scope(("team",), OF_NAMESPACES, notices_crds=False)
    assert caplog.messages == [
        "watching only these namespaces: team",
        "without permission to watch clusterservingruntimes and clusterstoragecontainers: services use what their own "
        "namespace has",
        "without permission to watch CRDs and namespaces: an installed CRD is noticed within five minutes",
    ]


async def test_what_more_is_permitted_is_watched() -> None:
    scope = await scope_of(Authorizer((RUNTIMES, *DISCOVERY)), ("team",))

    assert scope == Scope(("team",), tuple(kind for kind in EVERYTHING if kind.plural != CONTAINERS), notices_crds=True)


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_to_list_or_to_watch_alone_is_not_enough(verb: str) -> None:
    scope = await scope_of(Authorizer((RUNTIMES, CONTAINERS, *DISCOVERY), (verb,)), ("team",))

    assert scope == Scope(("team",), OF_NAMESPACES, notices_crds=False)


async def test_crds_are_noticed_only_where_namespaces_are_too() -> None:
    assert not (await scope_of(Authorizer(DISCOVERY[:1]), ("team",))).notices_crds


async def test_who_may_not_ask_may_watch_no_more() -> None:
    refusing = Authorizer(error=RequestRefused(403, "forbidden"))

    assert await scope_of(refusing, ("team",)) == Scope(("team",), OF_NAMESPACES, notices_crds=False)


async def test_an_api_server_that_does_not_answer_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    authorizer, waits = Authorizer(DISCOVERY, error=KubeError(503, "overloaded")), list[float]()

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            authorizer.error = None

    scope = await scope_of(authorizer, ("team",), wait)

    assert (scope.notices_crds, len(waits)) == (True, 3)
    assert "waiting for the API server: overloaded" in caplog.text


async def test_an_api_server_that_knows_nobody_is_an_error() -> None:
    with pytest.raises(KubeError, match="Unauthorized"):
        await scope_of(Authorizer(error=KubeError(401, "Unauthorized")), ("team",))


async def test_a_pattern_of_namespaces_needs_permission_to_list_them() -> None:
    assert (await scope_of(Authorizer(DISCOVERY), ("team-*",))).namespaces == ("team-*",)
    with pytest.raises(
        ConfigError, match=r"^namespace 'team-\*' is a pattern, and the operator may not list namespaces"
    ):
        await scope_of(Authorizer(), ("team-*",))


POD, RUNTIME = kind_named("Pod"), kind_named("ClusterServingRuntime")


@pytest.mark.parametrize(
    ("scope", "places"),
    [
        (Scope(), [""]),
        (Scope(notices_crds=False), [""]),
        (Scope(("team-*,!team-b", "other")), ["team-a", "other"]),
        (Scope(("other", "gone")), ["other"]),
        (Scope(("other", "gone"), notices_crds=False), ["other", "gone"]),
    ],
    ids=[
        "the whole cluster",
        "the whole cluster without CRDs",
        "namespaces that match",
        "those that exist of the named ones",
        "the named ones if it is not known which exist",
    ],
)
def test_a_kind_is_watched_in_each_namespace_and_one_of_the_cluster_once(scope: Scope, places: list[str]) -> None:
    scope = replace(scope, kinds=(POD, RUNTIME))

    assert scope.collections(["team-a", "team-b", "other"]) == [
        *(Collection(POD, place) for place in places),
        Collection(RUNTIME),
    ]


@pytest.mark.parametrize(
    ("scope", "depends"),
    [(Scope(), False), (Scope(("team",)), True), (Scope(("team-*",)), True), (Scope(("team",), (), False), False)],
    ids=["the whole cluster", "a name", "a pattern", "a name without CRDs"],
)
def test_what_is_watched_depends_on_the_namespaces_that_exist_if_they_may_be_listed(
    scope: Scope, depends: bool
) -> None:
    assert scope.depends_on_namespaces is depends
