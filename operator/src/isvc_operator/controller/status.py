"""Observes a service (rollouts and pods in the cache; logs and Events if necessary), and writes its status and Events.

The status is written once, if it has changed. That of a starting service follows its stages once a second: most of them
last for milliseconds. While others fight over a child, it is written as seldom as the child.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from isvc_operator.api.inference_service import InferenceService, InferenceServiceStatus
from isvc_operator.controller.children import Applied
from isvc_operator.controller.memory import ServiceMemory
from isvc_operator.controller.pod_details import PodDetails, PodMemory
from isvc_operator.decide import Decision, Inputs
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import Conflict, ObjectNotFound
from isvc_operator.kube.informer.cache import Cache
from isvc_operator.kube.recording import record
from isvc_operator.kube.requests import decode
from isvc_operator.manifests import Manifest, ServiceKey, merge_patch
from isvc_operator.observe.component import ComponentObservation, observe_component
from isvc_operator.observe.conditions import have_same_statuses, is_another_stage
from isvc_operator.observe.events import events_for
from isvc_operator.observe.pods import furthest
from isvc_operator.observe.routes import first_problem
from isvc_operator.observe.status import Observation
from isvc_operator.resolve.component import Component
from isvc_operator.resolve.ignored import all_ignored_parts
from isvc_operator.resolve.requested import components_of, is_stopped


@dataclass(frozen=True)
class Observer:
    """Observes services as the cache has them after their changes were applied."""

    cache: Cache
    details: PodDetails

    async def observe(
        self, key: ServiceKey, inputs: Inputs, decision: Decision, *, applied: Applied, memory: ServiceMemory
    ) -> tuple[Observation, float | None]:
        """Return the observation, and in how many seconds there may be more that no watch reports."""
        service, resolved = inputs.service, decision.resolved
        labelled = tuple(self.cache.of_service(key))
        stopped = is_stopped(service)
        known = {item.kind: item for item in resolved.components} if resolved else {}
        observed = [
            await self._component(
                item.kind,
                known.get(item.kind),
                labelled,
                namespace=key.namespace,
                stopped=stopped,
                memory=memory.pods.setdefault(item.kind, PodMemory()),
            )
            for item in components_of(service)
        ]
        observation = Observation(
            service=service,
            resolved=resolved,
            components=[component for component, _ in observed],
            route_problem=first_problem(decision.rendered, labelled, missing=applied.missing),
            stopped=stopped,
            held=applied.held,
            paused=decision.paused,
            waiting=decision.waiting,
            contested=applied.contested,
            problem=decision.problem,
            ignored=memory.memo(
                "ignored",
                (*inputs.requested, resolved, inputs.own_config),
                lambda: tuple(all_ignored_parts(service, resolved, inputs.own_config)),
            ),
        )
        return observation, min((seconds for _, seconds in observed if seconds is not None), default=None)

    async def _component(
        self,
        kind: str,
        resolved: Component | None,
        labelled: Collection[Manifest],
        *,
        namespace: str,
        stopped: bool,
        memory: PodMemory,
    ) -> tuple[ComponentObservation, float | None]:
        component = observe_component(kind, resolved, labelled, stopped=stopped)
        starting = None if stopped or component.failure else furthest(component.pods)
        detail = await self.details.of_starting(memory, starting)
        failure = await self.details.explained(memory, component.failure, component.pods)
        component = replace(
            component,
            failure=failure or detail.failure,
            log=await self.details.log_of(memory, namespace, component.failure) or detail.log,
            progress=detail.progress,
        )
        return component, detail.requeue_after


STAGE_SECONDS: Final = 1.0  # at least, from a stage that is not written to one that is


def status_wait(
    memory: ServiceMemory,
    before: InferenceServiceStatus,
    after: InferenceServiceStatus,
    now: float,
    *,
    fight: float = 0.0,
) -> float:
    """Return in how many seconds ``after`` may be written; 0 if now.

    After a stage is written, the memory has to forget since when the status lacks it. ``fight``: in how many seconds a
    child is restored that others change again and again; until then only what a condition's status says is news.
    """
    same = before.observed_generation == after.observed_generation
    if same and is_another_stage(before.conditions, after.conditions):
        if memory.stage_since is None:
            memory.stage_since = now
        return max(0.0, memory.stage_since + STAGE_SECONDS - now)
    memory.stage_since = None
    return fight if same and have_same_statuses(before.conditions, after.conditions) else 0.0


async def write_status(
    api: KubeApi, cache: Cache, body: Manifest, *, service: InferenceService, status: InferenceServiceStatus, now: str
) -> None:
    """Patch the status of ``body``, which is parsed as ``service``, and record what has changed as Events."""
    before, after = dict(body.get("status") or {}), status.as_dict()
    patch = merge_patch(before, after, before)
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
        await record(api, event)
