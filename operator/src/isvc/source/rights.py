"""What the reader may watch; what is left out is named."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from isvc.source.errors import NotSeen
from isvc.view.source import LOG, Shown
from isvc_operator.api import inference_service
from isvc_operator.api.kinds import (
    AUTOSCALERS,
    DISRUPTION_BUDGET,
    NETWORK_POLICY,
    ResourceKind,
    Role,
    kind_named,
    with_role,
)
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.informer.scope import may, may_watch
from isvc_operator.kube.informer.watching import Collection

_SERVICES: Final = kind_named(inference_service.KIND)
_RUNTIMES: Final = tuple(kind for kind in with_role(Role.INPUT) if kind.plural.endswith("servingruntimes"))
_CHILDREN: Final = tuple(
    kind for kind in with_role(Role.CHILD) if kind.routes or kind.name in (*AUTOSCALERS, "Deployment", "Service")
)
# They are only shown: who may not see them is not told. Those of others are not watched.
_GUARDS: Final = tuple(
    replace(kind_named(name), optional=True, others_watched=False) for name in (NETWORK_POLICY, DISRUPTION_BUDGET)
)
_OTHERS: Final = (*_RUNTIMES, *_CHILDREN, *_GUARDS, kind_named("Pod"), kind_named("Event"))
_REVIEWS: Final = 4  # namespaces at a time
# Those of other objects are many, and tell nothing that a service's status does not.
_EVENTS_OF: Final = (inference_service.KIND, "Pod")


@dataclass(frozen=True)
class _Use:
    """Something that is done with objects, and what it takes; ``missed`` says to people what they cannot have."""

    missed: str
    verbs: Sequence[str]
    resource: str

    async def is_allowed(self, api: KubeApi, namespace: str) -> bool:
        return all([await may(api, verb, "", self.resource, namespace) for verb in self.verbs])

    def note(self) -> str:
        return f"you may not {' and '.join(self.verbs)} {self.resource}, so {self.missed}"


REQUESTS: Final = "Requests"
_READS_LOGS: Final = _Use("logs are not shown", ("get",), "pods/log")
_SENDS: Final = _Use("requests cannot be sent to services", ("get", "create"), "services/proxy")
_READS_METRICS: Final = _Use("rates and charts are empty", ("get",), "pods/proxy")
_USES: Final = {LOG: _READS_LOGS, REQUESTS: _SENDS}

SHOWN: Final[frozenset[Shown]] = frozenset((*(kind.name for kind in (_SERVICES, *_OTHERS)), LOG))
# What people are told of if they do not have it: what is missing, by its name. An optional kind is often not installed.
NOTES: Final[Mapping[Shown, str]] = {
    **{kind.name: f"you may not list {kind.plural}" for kind in (_SERVICES, *_OTHERS) if not kind.optional},
    **{name: use.note() for name, use in _USES.items()},
}
_CLUSTER_KINDS: Final = {kind.name for kind in _OTHERS if not kind.namespaced}


@dataclass(frozen=True)
class Rights:
    """``collections`` are those to watch, ``hidden`` says for people what the reader may not see."""

    collections: Sequence[Collection]
    hidden: Sequence[str] = ()


async def rights_of(api: KubeApi, namespaces: Sequence[str], *, sends: bool = False) -> Rights:
    """Ask what the reader may watch in the namespaces, in the whole cluster without any.

    ``sends``: whether services are sent requests, and pods' metrics are read. Raises NotSeen if InferenceServices are
    not among what may be watched, and KubeError if the API server does not respond.
    """
    places = [*namespaces] or [""]
    wanted = dict.fromkeys(
        (kind, place if kind.namespaced else "") for kind in (_SERVICES, *_OTHERS) for place in places
    )
    allowed = dict(
        zip(wanted, await asyncio.gather(*(may_watch(api, kind, place) for kind, place in wanted)), strict=True)
    )
    refused = [place for place in places if not allowed[_SERVICES, place]]
    if len(refused) == len(places):
        raise NotSeen(_not_allowed(refused))
    collections = [item for key in wanted if allowed[key] for item in _collections(*key)]
    # Without permission for a kind that is not installed there is nothing to miss.
    missed = [key for key in wanted if not allowed[key] and not key[0].optional]
    notes = [f"you may not list and watch {kind.plural}{_where(place)}" for kind, place in missed]
    uses = [(use, place) for use in (_READS_LOGS, *((_SENDS, _READS_METRICS) if sends else ())) for place in places]
    are_allowed = await asyncio.gather(*(use.is_allowed(api, place) for use, place in uses))
    notes += [f"{use.note()}{_where(place)}" for (use, place), is_allowed in zip(uses, are_allowed, strict=True)
              if not is_allowed]  # fmt: skip
    return Rights(collections, notes)


async def may_list(api: KubeApi, namespaces: Sequence[str]) -> dict[str, frozenset[Shown]]:
    """Ask what the reader may list in each of the namespaces, first in the whole cluster; raises KubeError.

    Where services may not be listed, nothing else is asked for.
    """
    everywhere = await _listed(api, (_SERVICES, *_OTHERS), "", _USES)

    async def of(namespace: str) -> frozenset[Shown]:
        services = everywhere & {_SERVICES.name} or await _listed(api, (_SERVICES,), namespace)
        if not services:
            return frozenset()
        asked = [kind for kind in _OTHERS if kind.namespaced and kind.name not in everywhere]
        return everywhere | services | await _listed(api, asked, namespace, _USES.keys() - everywhere)

    room = asyncio.Semaphore(_REVIEWS)

    async def in_turn(namespace: str) -> frozenset[Shown]:
        async with room:
            return await of(namespace)

    return dict(zip(namespaces, await asyncio.gather(*map(in_turn, namespaces)), strict=True))


def notes_of(places: Mapping[str, frozenset[Shown]]) -> list[str]:
    """Return what people do not see, each in a sentence, from what they may list in each namespace."""
    missing: dict[Shown, list[str]] = {}
    for place, shown in sorted(places.items()):
        for name in sorted(NOTES.keys() - shown):
            missing.setdefault(name, []).append(place)
    return [
        NOTES[name] if name in _CLUSTER_KINDS else f"{NOTES[name]} (namespace {', '.join(found)})"
        for name, found in missing.items()
    ]


async def _listed(
    api: KubeApi, kinds: Sequence[ResourceKind], namespace: str, uses: Iterable[Shown] = ()
) -> frozenset[Shown]:
    """Return which of the kinds may be listed, and what else may be done."""
    asked: dict[Shown, Awaitable[bool]] = {
        kind.name: may(api, "list", kind.group, kind.plural, namespace) for kind in kinds
    }
    asked |= {name: _USES[name].is_allowed(api, namespace) for name in uses}
    answers = await asyncio.gather(*asked.values())
    return frozenset(name for name, is_allowed in zip(asked, answers, strict=True) if is_allowed)


def _collections(kind: ResourceKind, namespace: str) -> list[Collection]:
    if kind.role is Role.EVENT:
        return [Collection(kind, namespace, f"involvedObject.kind={name}") for name in _EVENTS_OF]
    return [Collection(kind, namespace)]


def _not_allowed(places: Sequence[str]) -> str:
    if places == [""]:
        return (
            "you may not list and watch inferenceservices in all namespaces; name one that you may read: "
            "--namespace NAMESPACE"
        )
    return (
        f"you may not list and watch inferenceservices in namespace {', '.join(places)}; "
        "name another one (--namespace), or ask for the rights of the ClusterRole view"
    )


def _where(namespace: str) -> str:
    return f" in namespace {namespace}" if namespace else ""
