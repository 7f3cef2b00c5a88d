"""Takes, renews and releases the Lease of the replica that leads (``kube/lease.py`` has the rules)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from isvc_operator.api.names import LEASE
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import Conflict, KubeError, ObjectNotFound
from isvc_operator.kube.fence import Fence, LeaseLost
from isvc_operator.kube.lease import (
    RETRY_SECONDS,
    WRITE_SECONDS,
    ObservedLease,
    claimed,
    holder,
    is_free,
    new_lease,
    released,
    seen,
)
from isvc_operator.kube.nesting import decode

log = logging.getLogger(__name__)

_RELEASES: Final = 3  # attempts; the first one may meet a renewal on its way


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
        """Whether this replica may write."""
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
