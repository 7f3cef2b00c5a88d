"""Bounds how often a child is restored that does not stay as rendered, because others change or delete it.

A change that is the same as the last one sent to the child restores it. The first few are sent at once: somebody has
edited the child by hand. After that another client does it each time, so each one waits twice as long as the one
before. A field that is missing from the response to the very apply is not sent again for an hour: a webhook or the API
server itself changes it in each write.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from isvc_operator.api.names import ANNOTATION_RENDERED, DRIFT_CORRECTED, ROLLOUT_UPDATED
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.informer.cache import Cache, ObjectKey, is_put_back, key_of
from isvc_operator.kube.recording import record
from isvc_operator.kube.requests import decode
from isvc_operator.limits import LINE_BYTES, NOT_KEPT_SECONDS, RESTORE_SECONDS
from isvc_operator.manifests import Manifest, annotations_of
from isvc_operator.observe.conditions import Cause, Contested
from isvc_operator.observe.events import change_event
from isvc_operator.plan.changes import ChildAction, ChildChange
from isvc_operator.plan.diff import Difference, differences, managers_of
from isvc_operator.plan.replaced_pods import new_pods, what_changed
from isvc_operator.text import one_line

log = logging.getLogger(__name__)

AT_ONCE: Final = 3  # restores
FIRST_WAIT: Final = 2.0  # seconds
# Seconds. A child that nobody has changed for that long is restored at once again.
FORGOTTEN: Final = 2 * RESTORE_SECONDS


@dataclass(frozen=True)
class LastChange:
    """The last change sent to a child, at ``at``; ``digest`` is that of what was applied, empty for a deletion.

    ``restores``: how often in a row it was the same change. ``not_kept``: what the response to it lacks. ``undoes``:
    what others had changed before it, or since; ``contested``: they have done so in the latest wait. ``told``: what
    others had changed when that was told last.
    """

    digest: str
    at: float
    restores: int = 0
    not_kept: tuple[Difference, ...] = ()
    undoes: Contested | None = None
    contested: bool = False
    told: Contested | None = None

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
    """Decides which changes wait, and tells the owner of a service what is not seen in its spec.

    ``clock`` counts seconds, ``now`` returns RFC 3339 times; ``restored`` gets each restored kind.
    """

    api: KubeApi
    cache: Cache
    clock: Callable[[], float]
    now: Callable[[], str]
    restored: Callable[[str], None]

    async def due(self, changes: Iterable[ChildChange], sent: Sent) -> list[ChildChange]:
        return [change for change in changes if not await self._waits(change, sent)]

    async def note(self, sent: Sent, change: ChildChange, before: Manifest | None, response: Manifest | None) -> None:
        """Note that a change was sent; the child was ``before``, and is ``response`` now: None if there is none.

        It is told what others had changed, unless that was told before, and why pods are replaced.
        """
        key, now = key_of(change.manifest), self.clock()
        last = sent.get(key)
        is_restore = last is not None and last.digest == _digest(change)
        not_kept = differences(response, change.manifest) if response is not None else ()
        entry, undone = LastChange(_digest(change), now, not_kept=not_kept), None
        if is_restore and last is not None and not (not_kept and not_kept == last.not_kept):
            self.restored(key.kind)
            recently = last if now < last.forgotten_at else entry
            told = recently.told if not_kept else last.undoes
            undone = told if told != recently.told else None
            restores = recently.restores + 1
            entry = replace(recently, at=now, not_kept=not_kept, restores=restores, undoes=last.undoes, told=told)
        sent[key] = entry
        for other in [other for other, last in sent.items() if last.forgotten_at < now]:
            del sent[other]
        pods = new_pods(before, response) if before and response else ""
        if undone:
            await self._tell(change, DRIFT_CORRECTED, "; ".join(filter(None, (undone.restored, pods))))
        elif pods and before and response and not entry.restores:
            await self._tell(change, ROLLOUT_UPDATED, f"{pods} after a change of {what_changed(before, response)}")

    async def _tell(self, change: ChildChange, reason: str, text: str) -> None:
        message = one_line(text, LINE_BYTES)
        log.info("%s", message)
        await record(self.api, change_event(change.manifest, reason=reason, message=message, now=self.now()))

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
            if last.undoes is not None and is_contested(last, now):
                found.append((last.undoes, last.waits_until))
            elif last.not_kept and key in differing:
                fields = tuple(map(str, last.not_kept))
                found.append((Contested(key.kind, key.name, Cause.NOT_KEPT, fields), last.forgotten_at))
        return tuple(item for item, _ in found), min((until - now for _, until in found), default=None)

    async def _waits(self, change: ChildChange, sent: Sent) -> bool:
        key, now = key_of(change.manifest), self.clock()
        before = self.cache.get(key) if change.action is ChildAction.UPDATE else None
        last = sent.get(key) or (LastChange(_digest(change), now) if before and _is_edited(before, change) else None)
        if last is None or last.digest != _digest(change):
            return False
        found = differences(before, change.manifest) if before else ()
        if found and found == last.not_kept:
            return now < last.forgotten_at
        waits = now < last.waits_until
        if not waits or last.undoes is None or last.undoes.fields != tuple(map(str, found)):
            last = replace(last, undoes=await self._contested(change, found))
        sent[key] = replace(last, contested=last.contested or waits)
        return waits

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
    return last.contested and now < last.waits_until


def _is_edited(before: Manifest, change: ChildChange) -> bool:
    """Whether the child was applied as it is rendered now, and others have changed it since."""
    return annotations_of(before).get(ANNOTATION_RENDERED) == _digest(change) or is_put_back(before)


def _digest(change: ChildChange) -> str:
    return "" if change.deletes else annotations_of(change.manifest)[ANNOTATION_RENDERED]
