"""Observes the components of a service: rollouts and pods in the watch cache, and logs and Events if necessary."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from isvc_operator.controller.children import Applied
from isvc_operator.controller.memory import ServiceMemory
from isvc_operator.controller.pod_details import PodDetails, PodMemory
from isvc_operator.decide import Decision, Inputs
from isvc_operator.kube.informer.cache import Cache
from isvc_operator.manifests import Manifest, ServiceKey
from isvc_operator.observe.component import ComponentObservation, observe_component
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
            held_back=decision.held_back,
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
