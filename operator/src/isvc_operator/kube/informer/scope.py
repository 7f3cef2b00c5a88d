"""What the operator watches: the whole cluster, or some namespaces and what else its service account may watch.

A service account with a Role has no permission outside of its namespace. The API server says so when it is asked, so
that nothing is requested only to be refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from kopf._cogs.structs.references import NamespaceName, match_namespace

from isvc_operator.api.kinds import KINDS, ResourceKind, Role, with_role
from isvc_operator.errors import ConfigError
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import KubeError, RequestRefused
from isvc_operator.kube.informer.watching import Collection
from isvc_operator.kube.requests import decode

log = logging.getLogger(__name__)

_WATCHED: Final = tuple(kind for kind in KINDS if kind.watched)
_DISCOVERY: Final = with_role(Role.DISCOVERY)

_ASK_AGAIN_SECONDS: Final = 2.0

Wait = Callable[[float], Awaitable[None]]

_PATTERN_SIGNS: Final = "*?!,"  # of patterns for namespaces


@dataclass(frozen=True)
class Scope:
    """The ``kinds`` that are watched, in ``namespaces`` or, without one, in the whole cluster.

    ``notices_crds``: whether the watch of a kind starts as soon as its CRD is installed. A namespace may be a pattern
    such as ``team-*,!team-x``: what a part after ``!`` matches is left out.
    """

    namespaces: tuple[str, ...] = ()
    kinds: tuple[ResourceKind, ...] = _WATCHED
    notices_crds: bool = True

    @property
    def depends_on_namespaces(self) -> bool:
        """Whether what is watched depends on the namespaces that exist."""
        return bool(self.namespaces) and self.notices_crds

    def collections(self, existing: Iterable[str]) -> list[Collection]:
        """Return what is watched if these namespaces exist."""
        if not self.namespaces:
            places: Iterable[str] = [""]
        else:
            places = filter(self.matches, existing) if self.notices_crds else self.namespaces
        return [
            *(Collection(kind, place) for place in places for kind in self.kinds if kind.namespaced),
            *(Collection(kind) for kind in self.kinds if not kind.namespaced),
        ]

    def matches(self, namespace: str) -> bool:
        return any(match_namespace(NamespaceName(namespace), pattern) for pattern in self.namespaces)


async def scope_of(api: KubeApi, namespaces: tuple[str, ...], wait: Wait = asyncio.sleep) -> Scope:
    """Return what is watched with ``namespaces``, and log what is left out; raises KubeError, ConfigError.

    An API server that does not respond is asked again, with ``wait`` in between: its restart must not end the operator.
    """
    if not namespaces:
        return Scope()
    while True:
        try:
            return await _scope_of(api, namespaces)
        except KubeError as error:
            if not error.is_transient:
                raise
            log.warning("waiting for the API server: %s", error)
        await wait(_ASK_AGAIN_SECONDS)


async def _scope_of(api: KubeApi, namespaces: tuple[str, ...]) -> Scope:
    kinds = [kind for kind in _WATCHED if kind.namespaced or await may_watch(api, kind)]
    notices_crds = all([await may_watch(api, kind) for kind in _DISCOVERY])
    if not notices_crds and (patterns := [name for name in namespaces if any(sign in name for sign in _PATTERN_SIGNS)]):
        raise ConfigError(
            f"namespace {patterns[0]!r} is a pattern, and the operator may not list namespaces to find what matches; "
            "write the names of namespaces, or allow it to list and watch namespaces and customresourcedefinitions"
        )
    log.info("watching only these namespaces: %s", ", ".join(namespaces))
    if left_out := [kind.plural for kind in _WATCHED if kind not in kinds]:
        log.info("without permission to watch %s: services use what their own namespace has", " and ".join(left_out))
    if not notices_crds:
        log.info("without permission to watch CRDs and namespaces: an installed CRD is noticed within five minutes")
    return Scope(namespaces, tuple(kinds), notices_crds)


async def may_watch(api: KubeApi, kind: ResourceKind, namespace: str = "") -> bool:
    """Whether the caller may list and watch a kind, without ``namespace`` in the whole cluster."""
    return all([await may(api, verb, kind.group, kind.plural, namespace) for verb in ("list", "watch")])


async def may(api: KubeApi, verb: str, group: str, resource: str, namespace: str = "") -> bool:
    """Whether the caller may do this, without ``namespace`` in the whole cluster. A resource may be ``pods/log``."""
    try:
        review = decode(await api.send(requests.review_own_access(verb, group, resource, namespace)))
    except RequestRefused:  # a cluster whose accounts may not even ask
        return False
    allowed: bool = review["status"]["allowed"]
    return allowed
