"""Bounds how often a child is restored that does not stay as rendered, because others change or delete it.

A change that is the same as the last one sent to the child restores it. The first few are sent at once: somebody has
edited the child by hand. After that another client does it each time, so each one waits twice as long as the one
before. A field that is missing from the response to the very apply is not sent again for an hour: a webhook or the API
server itself changes it in each write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from isvc_operator.api.names import ANNOTATION_RENDERED
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.informer.cache import Cache, ObjectKey, key_of
from isvc_operator.kube.requests import decode
from isvc_operator.limits import NOT_KEPT_SECONDS, RESTORE_SECONDS
from isvc_operator.manifests import Manifest, annotations_of
from isvc_operator.observe.conditions import Cause, Contested
from isvc_operator.plan.changes import ChildAction, ChildChange
from isvc_operator.plan.diff import Difference, differences, managers_of

AT_ONCE: Final = 3  # restores
FIRST_WAIT: Final = 2.0  # seconds
# Seconds. A child that nobody has changed for that long is restored at once again.
FORGOTTEN: Final = 2 * RESTORE_SECONDS


@dataclass(frozen=True)
class LastChange:
    """The last change sent to a child, at ``at``; ``digest`` is that of what was applied, empty for a deletion.

    ``restores``: how often in a row it was the same change. ``not_kept``: what the response to it lacks.
    ``contested``: what others have changed, in the latest wait.
    """

    digest: str
    at: float
    restores: int = 0
    not_kept: tuple[Difference, ...] = ()
    contested: Contested | None = None

    @property
    def waits_until(self) -> float:
        """When the same change may be sent again."""
        over = self.restores - AT_ONCE
        return self.at + (min(RESTORE_SECONDS, FIRST_WAIT * 2 ** min(over, 10)) if over >= 0 else 0.0)

    @property
    def forgotten_at(self) -> float:
        """When it does not matter any more."""
        return self.at + (NOT_KEPT_SECONDS if self.not_kept else FORGOTTEN)


# The last change sent to each child of a service.
Sent = dict[ObjectKey, LastChange]


@dataclass(frozen=True)
class Restores:
    """Decides which changes wait. ``clock`` counts seconds; ``restored`` gets each restored kind."""

    api: KubeApi
    cache: Cache
    clock: Callable[[], float]
    restored: Callable[[str], None]

    async def due(self, changes: Iterable[ChildChange], sent: Sent) -> list[ChildChange]:
        """Return the changes that can be sent now."""
        return [change for change in changes if not await self._waits(change, sent)]

    def note(self, sent: Sent, change: ChildChange, response: Manifest | None) -> None:
        """Note that a change was sent; ``response`` is the child as it is now, None if it is deleted."""
        key, now = key_of(change.manifest), self.clock()
        last = sent.get(key)
        is_restore = last is not None and last.digest == _digest(change)
        not_kept = differences(response, change.manifest) if response is not None else ()
        entry = LastChange(_digest(change), now, not_kept=not_kept)
        if is_restore and last is not None and not (not_kept and not_kept == last.not_kept):
            self.restored(key.kind)
            recently = last if now < last.forgotten_at else entry
            entry = replace(entry, restores=recently.restores + 1, contested=recently.contested)
        sent[key] = entry
        for other in [other for other, last in sent.items() if last.forgotten_at < now]:
            del sent[other]

    def contested(
        self, rendered: Iterable[Manifest], changes: Iterable[ChildChange], sent: Sent
    ) -> tuple[tuple[Contested, ...], float | None]:
        """Return the contested children of a service, and in how many seconds that has to be looked at again.

        ``rendered`` are its children, ``changes`` those that were planned, whether they were due or not.
        """
        now = self.clock()
        differing = {key_of(change.manifest) for change in changes}
        keys = dict.fromkeys((*map(key_of, rendered), *differing))
        found: list[tuple[Contested, float]] = []  # each with the time until which it is
        for key in keys:
            if (last := sent.get(key)) is None:
                continue
            if last.contested is not None and now < last.waits_until:
                found.append((last.contested, last.waits_until))
            elif last.not_kept and key in differing:
                fields = tuple(map(str, last.not_kept))
                found.append((Contested(key.kind, key.name, Cause.NOT_KEPT, fields), last.forgotten_at))
        return tuple(item for item, _ in found), min((until - now for _, until in found), default=None)

    async def _waits(self, change: ChildChange, sent: Sent) -> bool:
        key, now = key_of(change.manifest), self.clock()
        last = sent.get(key)
        if last is None or last.digest != _digest(change):
            return False
        found = differences(self.cache.get(key), change.manifest) if change.action is ChildAction.UPDATE else ()
        if found and found == last.not_kept:
            return now < last.forgotten_at
        if now >= last.waits_until:
            return False
        if last.contested is None or last.contested.fields != tuple(map(str, found)):
            sent[key] = replace(last, contested=await self._contested(change, found))
        return True

    async def _contested(self, change: ChildChange, found: Sequence[Difference]) -> Contested:
        key = key_of(change.manifest)
        if change.action is ChildAction.CREATE:
            return Contested(key.kind, key.name, Cause.DELETED)
        cause = Cause.CREATED if change.deletes else Cause.CHANGED
        try:
            managers = managers_of(decode(await self.api.send(requests.get(*key))), found)
        except KubeError:  # it was deleted meanwhile, or cannot be read: the fields alone are reported
            managers = ()
        return Contested(key.kind, key.name, cause, tuple(map(str, found)), managers)


def is_contested(last: LastChange, now: float) -> bool:
    """Whether others fight over a child now."""
    return last.contested is not None and now < last.waits_until


def _digest(change: ChildChange) -> str:
    return "" if change.deletes else annotations_of(change.manifest)[ANNOTATION_RENDERED]
