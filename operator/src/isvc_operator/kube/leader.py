"""The election of the replica that leads: what its Lease says, who holds it, and a fence that stops the others' writes.

No clock of another machine is compared: a lease is free when it has not changed for ``LEASE_SECONDS`` by one's own
clock. Its holder sends no more writes ``WRITE_SECONDS`` after it began its last renewal, and the API server ends each
write ``LATEST_WRITE_SECONDS`` after it received it. So the last write of a leader is over before another leads.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final

import aiohttp

from isvc_operator.api.names import LEASE
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import Conflict, KubeError, ObjectNotFound
from isvc_operator.kube.requests import LEASES, decode
from isvc_operator.manifests import Manifest

log = logging.getLogger(__name__)

LEASE_SECONDS: Final = 11.0
WRITE_SECONDS: Final = 6.0
LATEST_WRITE_SECONDS: Final = 4.0  # one second less than what is left of the lease, for the way to the API server
RETRY_SECONDS: Final = 1.0  # between two renewals, and between two looks of a replica that stands by
_RELEASES: Final = 3  # attempts; the first one may meet a renewal on its way
# The Lease itself, whose writes name the version that they replace, and questions, which change nothing.
_OPEN: Final = (LEASES, "/apis/authorization.k8s.io/")
_PATH: Final = re.compile("/apis?/.*")  # without that of a proxy before the API server


class LeaseLost(KubeError):
    """Another replica leads, or may lead by now."""

    def __init__(self) -> None:
        super().__init__(0, "this replica does not hold the lease, so that it must not write")


class Fence:
    """Lets writes out before ``until`` on ``clock``, which must count the time of suspension, too; at first none.

    A process may be stopped anywhere: between the decision to write and the write there may be minutes. aiohttp calls
    the hook for a part of a request's body directly before it gives that part, and with the first one the head, to the
    connection; every write has a body.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.until = float("-inf")

    @property
    def is_open(self) -> bool:
        return self._clock() < self.until

    def trace(self) -> aiohttp.TraceConfig:
        """Return what makes an aiohttp session send no write while the fence is closed."""

        async def about_to_send(_: object, __: SimpleNamespace, sent: aiohttp.TraceRequestChunkSentParams) -> None:
            path = _PATH.search(sent.url.path)
            if not self.is_open and not (path and path[0].startswith(_OPEN)):
                raise LeaseLost

        config = aiohttp.TraceConfig()
        config.on_request_chunk_sent.append(about_to_send)
        return config


class Election:
    """The part of one replica, ``identity``, in the election in a namespace; it opens and closes the ``fence``.

    ``clock`` is the fence's; ``now`` returns RFC 3339 times.
    """

    def __init__(
        self,
        api: KubeApi,
        fence: Fence,
        *,
        namespace: str,
        identity: str,
        clock: Callable[[], float],
        now: Callable[[], str],
    ) -> None:
        self._api = api
        self._fence = fence
        self._namespace = namespace
        self._identity = identity
        self._clock = clock
        self._now = now
        self._none = ObservedLease(new_lease(namespace, LEASE), float("-inf"))
        self._seen = self._none
        self._problem = ""

    @property
    def leading(self) -> bool:
        return self._fence.is_open

    async def win(self) -> None:
        """Stand by until this replica leads."""
        log.info("standing by as %s for the lease %s/%s", self._identity, self._namespace, LEASE)
        while not self.leading:
            await self._attempt(self._take_if_free, WRITE_SECONDS)
            if not self.leading:
                await asyncio.sleep(RETRY_SECONDS)
        log.info("leading as %s", self._identity)

    async def hold(self) -> None:
        """Renew the lease for as long as that succeeds; raises LeaseLost."""
        while self.leading:
            started = self._clock()
            await self._attempt(self._renew, self._fence.until - started)
            await asyncio.sleep(max(0.0, started + RETRY_SECONDS - self._clock()))
        raise LeaseLost

    async def release(self) -> None:
        """Write no more, and let another replica lead at once; no write may be in progress."""
        self._fence.until = float("-inf")
        for _ in range(_RELEASES):
            if await self._attempt(self._give_up, WRITE_SECONDS):
                return

    async def _attempt(self, step: Callable[[], Awaitable[None]], seconds: float) -> bool:
        """Take a step, log a problem once, and return whether there was none."""
        problem, done = "", False
        try:
            async with asyncio.timeout(seconds):
                await step()
            done = True
        except Conflict:  # another one was faster; the next attempt reads what it wrote
            pass
        except TimeoutError:
            problem = "no response from the API server"
        except KubeError as error:
            problem = str(error)
        if problem and problem != self._problem:
            log.warning("the lease %s/%s cannot be read or written: %s", self._namespace, LEASE, problem)
        self._problem = problem
        return done

    async def _read(self) -> None:
        try:
            text = await self._api.send(requests.read_lease(self._namespace, LEASE))
        except ObjectNotFound:
            self._seen = self._none
        else:
            self._seen = seen(decode(text), self._seen, self._clock())

    async def _take_if_free(self) -> None:
        await self._read()
        if is_free(self._seen, self._identity, self._clock()):
            await self._claim()

    async def _renew(self) -> None:
        try:
            await self._claim()
        except Conflict:  # someone has changed it, perhaps its labels only
            await self._read()
            if holder(self._seen.lease) != self._identity:
                self._fence.until = float("-inf")
                return
            await self._claim()

    async def _claim(self) -> None:
        started = self._clock()
        body = claimed(self._seen.lease, self._identity, self._now())
        exists = self._seen is not self._none
        request = requests.replace_lease(body) if exists else requests.create_lease(body)
        self._seen = ObservedLease(decode(await self._api.send(request)), started)
        self._fence.until = started + WRITE_SECONDS

    async def _give_up(self) -> None:
        await self._read()
        if holder(self._seen.lease) == self._identity:
            await self._api.send(requests.replace_lease(released(self._seen.lease)))


@dataclass(frozen=True)
class ObservedLease:
    """A Lease, and since when, by one's own clock, it is known to be as it is."""

    lease: Manifest
    since: float


def seen(lease: Manifest, before: ObservedLease, now: float) -> ObservedLease:
    """Return the Lease as it was read ``now``; ``before`` is what was seen when it was read before."""
    return before if _version(before.lease) == _version(lease) else ObservedLease(lease, now)


def is_free(found: ObservedLease, identity: str, now: float) -> bool:
    """Whether ``identity`` may take the Lease: it was released, is its own, or was not renewed for too long."""
    return holder(found.lease) in ("", identity) or now >= found.since + LEASE_SECONDS


def holder(lease: Manifest) -> str:
    """Return the identity of the holder; empty if the Lease was released."""
    return str(_spec(lease).get("holderIdentity") or "")


def new_lease(namespace: str, name: str) -> dict[str, Any]:
    """Return a Lease that nobody holds."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {},
    }


def claimed(lease: Manifest, identity: str, now: str) -> dict[str, Any]:
    """Return the Lease as taken or renewed by ``identity``; ``now`` is an RFC 3339 time in whole seconds."""
    before, time = _spec(lease), now.replace("Z", ".000000Z")
    taken = holder(lease) != identity
    spec = {
        **before,
        "holderIdentity": identity,
        "leaseDurationSeconds": int(LEASE_SECONDS),
        "acquireTime": time if taken else before.get("acquireTime", time),
        "renewTime": time,
        "leaseTransitions": (before.get("leaseTransitions") or 0) + (1 if taken else 0),
    }
    return {**lease, "spec": spec}


def released(lease: Manifest) -> dict[str, Any]:
    return {**lease, "spec": {**_spec(lease), "holderIdentity": ""}}


def _spec(lease: Manifest) -> Manifest:
    spec: Manifest = lease.get("spec") or {}
    return spec


def _version(lease: Manifest) -> Any:
    metadata = lease["metadata"]
    return metadata.get("uid"), metadata.get("resourceVersion")
