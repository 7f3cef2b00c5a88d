"""Stops the writes of a replica that does not lead, at the last moment before they are sent.

A process may be stopped anywhere: between the decision to write and the write there may be minutes. aiohttp calls the
hook for a part of a request's body directly before it gives that part, and with the first one the head, to the
connection; every write has a body.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Final

import aiohttp

from isvc_operator.kube.calls import api_path
from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.requests import LEASES

# The Lease itself, whose writes name the version that they replace, and questions, which change nothing.
_OPEN: Final = (LEASES, "/apis/authorization.k8s.io/")


class LeaseLost(KubeError):
    """Another replica leads, or may lead by now."""

    def __init__(self) -> None:
        super().__init__(0, "this replica does not hold the lease, so that it must not write")


class Fence:
    """Lets writes out before ``until`` on ``clock``, which must count the time of suspension, too; at first none."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.until = float("-inf")

    @property
    def is_open(self) -> bool:
        """Whether writes may be sent now."""
        return self._clock() < self.until

    def trace(self) -> aiohttp.TraceConfig:
        """Return what makes an aiohttp session send no write while the fence is closed."""

        async def about_to_send(_: object, __: SimpleNamespace, sent: aiohttp.TraceRequestChunkSentParams) -> None:
            if not self.is_open and not api_path(sent.url.path).startswith(_OPEN):
                raise LeaseLost

        config = aiohttp.TraceConfig()
        config.on_request_chunk_sent.append(about_to_send)
        return config
