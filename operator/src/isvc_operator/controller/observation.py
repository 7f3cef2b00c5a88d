"""Observes the components of a service: rollouts and pods in the watch cache, and logs and Events if necessary."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from isvc_operator.api.inference_service import InferenceService
from isvc_operator.config import OperatorConfig
from isvc_operator.controller.children import Applied
from isvc_operator.controller.made import Made, wanted
from isvc_operator.controller.pod_details import ComponentKey, PodDetails
from isvc_operator.errors import Problem
from isvc_operator.kube.cache import Cache
from isvc_operator.manifests import Manifest, ServiceKey
from isvc_operator.observe.component import ComponentObservation, observe_component
from isvc_operator.observe.pods import furthest
from isvc_operator.observe.routes import first_problem
from isvc_operator.observe.status import Observation
from isvc_operator.resolve.component import Component
from isvc_operator.resolve.components import components_of
from isvc_operator.resolve.ignored import all_ignored_parts
from isvc_operator.resolve.service import Resolved, is_stopped


@dataclass(frozen=True)
class Observer:
    """Observes services as the cache has them after their changes were applied."""

    cache: Cache
    details: PodDetails
    ignored: Made[tuple[str, ...]] = field(default_factory=Made)

    async def observe(
        self,
        key: ServiceKey,
        service: InferenceService,
        resolved: Resolved | None,
        *,
        problem: Problem | None,
        rendered: Sequence[Manifest],
        applied: Applied,
        config: OperatorConfig,
    ) -> tuple[Observation, float | None]:
        """Return the observation, and in how many seconds there may be more that no watch reports.

        ``rendered`` are the children that the service should have, ``applied`` is how far that has got.
        """
        labelled = tuple(self.cache.of_service(key))
        stopped = is_stopped(service)
        known = {item.kind: item for item in resolved.components} if resolved else {}
        components = [
            await self._component(ComponentKey(key, item.kind), known.get(item.kind), labelled, stopped=stopped)
            for item in components_of(service)
        ]
        observation = Observation(
            service=service,
            resolved=resolved,
            components=[component for component, _ in components],
            route_problem=first_problem(rendered, labelled, missing=applied.missing),
            stopped=stopped,
            held=applied.held,
            held_back=applied.held_back,
            waiting=applied.waiting,
            contested=applied.contested,
            problem=problem,
            ignored=self.ignored.of(
                key, (*wanted(service), resolved, config), lambda: tuple(all_ignored_parts(service, resolved, config))
            ),
        )
        return observation, min((seconds for _, seconds in components if seconds is not None), default=None)

    async def _component(
        self, key: ComponentKey, resolved: Component | None, labelled: Collection[Manifest], *, stopped: bool
    ) -> tuple[ComponentObservation, float | None]:
        component = observe_component(key.kind, resolved, labelled, stopped=stopped)
        starting = None if stopped or component.failure else furthest(component.pods)
        detail = await self.details.of_starting(key, starting)
        failure = await self.details.explained(key, component.failure, component.pods)
        component = replace(
            component,
            failure=failure or detail.failure,
            log=await self.details.log_of(key, component.failure) or detail.log,
            progress=detail.progress,
        )
        return component, detail.requeue_after
