"""Writes the status of a service, once, if it has changed, and then records its Events.

The status of a starting service follows its stages once a second: most of them last for milliseconds.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from isvc_operator.api.inference_service import InferenceService, InferenceServiceStatus
from isvc_operator.controller.memory import ServiceMemory
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import Conflict, KubeError, NamespaceEnding, ObjectNotFound
from isvc_operator.kube.informer.cache import Cache
from isvc_operator.kube.nesting import decode
from isvc_operator.manifests import Manifest
from isvc_operator.observe.conditions import is_another_stage
from isvc_operator.observe.events import events_for

log = logging.getLogger(__name__)

STAGE_SECONDS: Final = 1.0  # at least, from a stage that is not written to one that is


def stage_wait(
    memory: ServiceMemory, before: InferenceServiceStatus, after: InferenceServiceStatus, now: float
) -> float:
    """Return in how many seconds ``after`` may be written; 0 if now.

    After a stage is written, the memory has to forget since when the status lacks it.
    """
    same = before.observed_generation == after.observed_generation
    if same and is_another_stage(before.conditions, after.conditions):
        if memory.stage_since is None:
            memory.stage_since = now
        return max(0.0, memory.stage_since + STAGE_SECONDS - now)
    memory.stage_since = None
    return 0.0


async def write_status(
    api: KubeApi, cache: Cache, body: Manifest, *, service: InferenceService, status: InferenceServiceStatus, now: str
) -> None:
    """Patch the status of ``body``, which is parsed as ``service``, and record what has changed as Events."""
    before, after = dict(body.get("status") or {}), status.as_dict()
    patch = merge_patch(before, after)
    if not patch:
        return
    cache.expect({**body, "status": after})
    try:
        response = await api.send(requests.patch_status(body, patch))
    except ObjectNotFound:  # and the watch has not reported the deletion
        cache.remove(body)
        return
    except Conflict:  # it has changed, or was deleted and created again: that event queues it
        return
    cache.written(decode(response))
    for event in events_for(service, status, now):
        await _record(api, event)


async def _record(api: KubeApi, event: Manifest) -> None:
    """Record an Event. One that is refused is lost: it repeats what the status says."""
    try:
        await api.send(requests.create_event(event))
    except NamespaceEnding:
        raise
    except KubeError as error:
        log.warning("an Event is not recorded: %s (it says: %s)", error, event["message"])


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch (RFC 7386) that turns ``before`` into ``after``; empty if they are equal."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        known = before.get(name)
        if isinstance(value, Mapping) and isinstance(known, Mapping):
            if inner := merge_patch(known, value):
                patch[name] = inner
        elif value != known:
            patch[name] = value
    return patch
