"""One replica's part in the election. The API server and the clock are the test's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import TraceRequestChunkSentParams
from yarl import URL

from isvc_operator.kube.errors import Conflict, KubeError, ObjectNotFound
from isvc_operator.kube.leader import (
    LATEST_WRITE_SECONDS,
    LEASE_SECONDS,
    RETRY_SECONDS,
    WRITE_SECONDS,
    Election,
    Fence,
    LeaseLost,
    claimed,
    new_lease,
)
from isvc_operator.kube.requests import ApiRequest
from tests.support.fakes import Seconds

NOW = "2026-01-01T00:00:00Z"


class Looked(Exception):
    """The test has seen enough."""


@dataclass
class Leases:
    """An API server that has one Lease; ``before`` is called before each request."""

    lease: dict[str, Any] | None = None
    before: Callable[[ApiRequest], None] = lambda request: None
    sent: list[str] = field(default_factory=list)

    async def send(self, request: ApiRequest) -> str:
        self.before(request)
        self.sent.append(request.method)
        if request.method == "GET":
            if self.lease is None:
                raise ObjectNotFound(404, "there is none")
            return json.dumps(self.lease)
        body = json.loads(json.dumps(request.body))
        if body["metadata"].get("resourceVersion") != (self.lease or {"metadata": {}})["metadata"].get(
            "resourceVersion"
        ):
            raise Conflict(409, "it has changed")
        self.store(body)
        return json.dumps(self.lease)

    def store(self, body: dict[str, Any]) -> None:
        version = int(body["metadata"].get("resourceVersion", 0)) + 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}}

    def holder(self) -> str:
        assert self.lease is not None
        return str(self.lease["spec"]["holderIdentity"])


def an_election(
    api: Leases, clock: Seconds, identity: str = "own", now: Callable[[], str] = lambda: NOW
) -> tuple[Election, Fence]:
    fence = Fence(clock)
    return Election(api, fence, namespace="ns", identity=identity, clock=clock, now=now), fence


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    """A clock on which only sleep takes time."""
    clock = Seconds()

    async def sleep(seconds: float) -> None:
        clock.passed += seconds

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return clock


def test_the_last_write_is_over_before_another_one_leads_and_that_one_leads_within_15_seconds() -> None:
    assert WRITE_SECONDS + LATEST_WRITE_SECONDS < LEASE_SECONDS
    assert LEASE_SECONDS + 2 * RETRY_SECONDS < 15


def test_taking_a_lease_counts_a_transition_and_renewing_it_does_not() -> None:
    lease = new_lease("ns", "isvc-operator")
    others = {"holderIdentity": "other", "acquireTime": "before", "leaseTransitions": 4}
    own = {
        "holderIdentity": "own",
        "leaseDurationSeconds": 11,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 5,
    }

    taken = claimed(lease | {"spec": others}, "own", NOW)

    assert taken == lease | {"spec": own}
    assert claimed(taken, "own", "2026-01-01T00:00:01Z") == lease | {
        "spec": own | {"renewTime": "2026-01-01T00:00:01.000000Z"}
    }


async def test_the_first_one_creates_the_lease_and_leads_for_as_long_as_it_renews_it(clock: Seconds) -> None:
    api = Leases()
    election, fence = an_election(api, clock)

    await election.win()
    leads = election.leading
    clock.passed += WRITE_SECONDS

    assert (leads, election.leading, fence.is_open, api.holder()) == (True, False, False, "own")
    assert api.sent == ["GET", "POST"]


async def test_another_one_stands_by_until_the_lease_was_not_renewed_for_too_long(clock: Seconds) -> None:
    api = Leases()
    first, _ = an_election(api, clock)
    second, _ = an_election(api, clock, "other")
    await first.win()
    leaders = []
    api.before = lambda _: leaders.append((clock.passed, first.leading, second.leading))
    await second.win()

    looks = {(one, other) for _, one, other in leaders}
    assert looks == {(True, False), (False, False)}  # for a while neither writes, and never do both
    assert (clock.passed, first.leading, second.leading, api.holder()) == (LEASE_SECONDS, False, True, "other")


@pytest.mark.parametrize("time", ["1970-01-01T00:00:00Z", "2106-02-07T06:28:15Z"])
async def test_who_leads_does_not_depend_on_the_times_that_clocks_show(time: str, clock: Seconds) -> None:
    api = Leases()
    first, _ = an_election(api, clock, now=lambda: time)
    second, _ = an_election(api, clock, "other")
    await first.win()
    await second.win()

    assert (clock.passed, first.leading, second.leading, api.holder()) == (LEASE_SECONDS, False, True, "other")


async def test_a_leader_whose_lease_another_one_took_loses_it_at_its_next_renewal(clock: Seconds) -> None:
    api = Leases()
    election, _ = an_election(api, clock)
    await election.win()
    assert api.lease is not None
    api.store({**api.lease, "spec": {"holderIdentity": "other"}})

    with pytest.raises(LeaseLost):
        await election.hold()

    assert (election.leading, api.holder()) == (False, "other")


async def test_a_leader_that_cannot_renew_loses_the_lease_in_time(
    clock: Seconds, caplog: pytest.LogCaptureFixture
) -> None:
    api = Leases()
    election, _ = an_election(api, clock)
    await election.win()

    def fail(request: ApiRequest) -> None:
        clock.passed += WRITE_SECONDS / 2
        raise KubeError(503, "restarting")

    api.before = fail
    with pytest.raises(LeaseLost):
        await election.hold()

    assert (election.leading, clock.passed) == (False, WRITE_SECONDS)
    assert [line for line in caplog.messages if "restarting" in line] == [
        "the lease ns/isvc-operator cannot be read or written: restarting"
    ]


async def test_a_change_of_the_leases_labels_does_not_end_the_leadership(clock: Seconds) -> None:
    api = Leases()
    election, _ = an_election(api, clock)
    await election.win()
    assert api.lease is not None
    api.store(api.lease | {"metadata": api.lease["metadata"] | {"labels": {"a": "b"}}})

    def look(_: ApiRequest) -> None:
        if len(api.sent) == 5:  # after the refused renewal, the look at the lease, and the second renewal
            raise Looked

    api.before = look
    with pytest.raises(Looked):
        await election.hold()

    assert (election.leading, api.sent) == (True, ["GET", "POST", "PUT", "GET", "PUT"])
    assert api.lease["metadata"]["labels"] == {"a": "b"}


async def test_a_released_lease_has_no_holder_although_a_renewal_was_on_its_way(clock: Seconds) -> None:
    api = Leases()
    election, _ = an_election(api, clock)
    await election.win()
    late = [True]

    def renewal_arrives(request: ApiRequest) -> None:
        if request.method == "PUT" and late and api.lease:
            late.clear()
            api.store(api.lease)

    api.before = renewal_arrives
    await election.release()

    assert (election.leading, api.holder()) == (False, "")


@pytest.mark.parametrize(("released", "identity"), [(True, "other"), (False, "own")], ids=["released", "its own"])
async def test_a_lease_is_taken_at_once_that_is(clock: Seconds, released: bool, identity: str) -> None:
    api = Leases()
    first, _ = an_election(api, clock)
    await first.win()
    if released:
        await first.release()
    next_one, _ = an_election(api, clock, identity)

    await next_one.win()

    assert (clock.passed, next_one.leading, api.holder()) == (0.0, True, identity)


async def test_the_lease_of_another_one_is_not_released(clock: Seconds) -> None:
    api = Leases()
    election, _ = an_election(api, clock)
    await election.win()
    assert api.lease is not None
    api.store({**api.lease, "spec": {"holderIdentity": "other"}})

    await election.release()

    assert api.holder() == "other"


@pytest.mark.parametrize("before", ["", "/k8s/clusters/c-1"], ids=["directly", "through a proxy"])
@pytest.mark.parametrize(
    ("path", "stopped"),
    [
        ("/api/v1/namespaces/a/services/b", True),
        ("/apis/apps/v1/namespaces/a/deployments/b", True),
        ("/apis/coordination.k8s.io/v1/namespaces/ns/leases/isvc-operator", False),
        ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", False),
    ],
)
async def test_a_closed_fence_stops_every_write_but_those_of_the_lease(before: str, path: str, stopped: bool) -> None:
    (about_to_send,) = Fence(lambda: 0.0).trace().on_request_chunk_sent
    sent: Any = TraceRequestChunkSentParams("PATCH", URL(f"https://api{before}{path}"), b"")

    with pytest.raises(LeaseLost) if stopped else nullcontext():
        await about_to_send(sent, sent, sent)
