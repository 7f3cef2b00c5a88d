"""Reads the few objects that are never watched, by their names: service accounts, secrets, config maps.

What was read is remembered for a short while, so that a reconcile which has nothing to do makes no call, and services
of one namespace share what they all refer to. A secret never gets into the watch cache, nor into a log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import NotFound
from isvc_operator.resolve.objects import Objects, Reference

Manifest = dict[str, Any]

REMEMBERED = 30.0  # seconds
# What is not there may be just about to come: `kubectl apply` of a file makes its objects one by one.
MISSED = 2.0  # seconds

Wanted = Callable[[Objects], Iterable[Reference]]


@dataclass
class ObjectReader:
    """Objects by name. ``clock`` counts seconds."""

    api: KubeApi
    clock: Callable[[], float]
    _remembered: dict[tuple[str, Reference], tuple[float, Manifest | None]] = field(default_factory=dict)

    async def read_all(self, namespace: str, wanted: Wanted) -> Objects:
        """Everything that ``wanted`` names, which may name more once it sees what has been read."""
        self._forget_old()
        known: dict[Reference, Manifest | None] = {}
        while missing := [reference for reference in wanted(known) if reference not in known]:
            for reference in missing:
                known[reference] = await self._read(namespace, reference)
        return known

    async def _read(self, namespace: str, reference: Reference) -> Manifest | None:
        key = (namespace, reference)
        if key not in self._remembered:
            try:
                body = json.loads(await self.api.send(requests.get(reference.kind, namespace, reference.name)))
            except NotFound:
                body = None
            self.remember(namespace, reference, body)
        return self._remembered[key][1]

    def remember(self, namespace: str, reference: Reference, body: Manifest | None) -> None:
        """Take this for what is stored."""
        until = self.clock() + (MISSED if body is None else REMEMBERED)
        self._remembered[namespace, reference] = (until, body)

    def _forget_old(self) -> None:
        now = self.clock()
        self._remembered = {key: entry for key, entry in self._remembered.items() if entry[0] > now}
