"""What the operator watches: the whole cluster, or some namespaces and what else its service account may watch.

A service account with a Role has no permission outside of its namespace. The API server says so when it is asked, so
that nothing is requested only to be refused.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Final

from isvc_operator.api.kinds import KINDS, ResourceKind
from isvc_operator.errors import ConfigError
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import RequestRefused

log = logging.getLogger(__name__)

_WATCHED: Final = tuple(kind for kind in KINDS if kind.watched)
# What kopf watches itself: a new CRD starts the watch of its kind.
_FOR_KOPF: Final = (("apiextensions.k8s.io", "customresourcedefinitions"), ("", "namespaces"))

_PATTERN_SIGNS: Final = "*?!,"  # of kopf's patterns for namespaces


@dataclass(frozen=True)
class Scope:
    """The ``kinds`` that are watched, in ``namespaces`` or, without one, in the whole cluster.

    ``notices_crds``: whether the watch of a kind starts when its CRD is installed, without a restart.
    """

    namespaces: tuple[str, ...] = ()
    kinds: tuple[ResourceKind, ...] = _WATCHED
    notices_crds: bool = True


async def scope_of(api: KubeApi, namespaces: tuple[str, ...]) -> Scope:
    """Return what is watched with ``namespaces``, and log what is left out; raises KubeError, ConfigError."""
    if not namespaces:
        return Scope()
    kinds = [kind for kind in _WATCHED if kind.namespaced or await _may_watch(api, kind.group, kind.plural)]
    notices_crds = all([await _may_watch(api, *resource) for resource in _FOR_KOPF])
    if not notices_crds and (patterns := [name for name in namespaces if any(sign in name for sign in _PATTERN_SIGNS)]):
        raise ConfigError(
            f"namespace {patterns[0]!r} is a pattern, and the operator may not list namespaces to find what matches; "
            "write the names of namespaces, or allow it to list and watch namespaces and customresourcedefinitions"
        )
    log.info("watching only these namespaces: %s", ", ".join(namespaces))
    if left_out := [kind.plural for kind in _WATCHED if kind not in kinds]:
        log.info("without permission to watch %s: services use what their own namespace has", " and ".join(left_out))
    if not notices_crds:
        log.info("without permission to watch CRDs and namespaces: after a CRD is installed, restart the operator")
    return Scope(namespaces, tuple(kinds), notices_crds)


async def _may_watch(api: KubeApi, group: str, resource: str) -> bool:
    return all([await _may(api, verb, group, resource) for verb in ("list", "watch")])


async def _may(api: KubeApi, verb: str, group: str, resource: str) -> bool:
    try:
        review = json.loads(await api.send(requests.review_own_access(verb, group, resource)))
    except RequestRefused:  # a cluster whose accounts may not even ask
        return False
    allowed: bool = review["status"]["allowed"]
    return allowed
