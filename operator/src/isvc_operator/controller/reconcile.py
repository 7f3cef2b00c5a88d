"""Reconciles one service: its children become what its spec requests, and its status what is observed.

1. gather    the service, runtimes and children                  (the watch cache)
2. resolve   runtime, merged pod, storage, hosts                 pure, once the objects of its storage have been read
3. render    every child                                         pure
4. apply     what differs; delete what is no longer rendered     (the API server)
5. observe   rollout, pods, failures                             pure, except for logs and Events
6. write     the status, once, if it has changed; then Events    (the API server; stages once a second)

A service whose children were created by step 4 goes to the end of the queue: its status is written when it comes again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from isvc_operator import __version__
from isvc_operator.api.inference_service import KIND, InferenceService
from isvc_operator.api.kinds import SCALED_OBJECT
from isvc_operator.config import OperatorConfig, UpgradePolicy
from isvc_operator.controller.adoption import release_finalizer
from isvc_operator.controller.ca_bundle import copy_ca_bundle
from isvc_operator.controller.children import Applied, Children
from isvc_operator.controller.ending import Ending
from isvc_operator.controller.gather import Gathered, gather, read_service
from isvc_operator.controller.made import Made, wanted
from isvc_operator.controller.observation import Observer
from isvc_operator.controller.pod_details import PodDetails
from isvc_operator.controller.stages import StageThrottle
from isvc_operator.controller.status import write_status
from isvc_operator.errors import InvalidCredentials, InvalidSpec, OperatorError, Problem, Unexpected
from isvc_operator.kube.cache import Cache
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.discovery import Discovery
from isvc_operator.kube.errors import KubeError, NamespaceEnding
from isvc_operator.kube.objects import ObjectReader, read_storage
from isvc_operator.manifests import ServiceKey
from isvc_operator.observe.status import derive_status
from isvc_operator.plan.upgrades import RenderOrigin
from isvc_operator.render.children import render
from isvc_operator.resolve.canaries import canary_requests
from isvc_operator.resolve.service import Resolved, asks_for_keda, is_stopped, resolve
from isvc_operator.telemetry.tracing import NoTracer, Tracer

log = logging.getLogger(__name__)

# Seconds. Secrets, service accounts and the installation of KEDA are not watched; only services that refer to them are
# reconciled again.
RESYNC = 300.0
# Failed attempts before the status reports an API server that is unavailable: four to eight seconds of retries.
REPORT_AFTER = 4


@dataclass(frozen=True)
class ApplyOutcome:
    """What came of steps 2 to 4: all of it, or as much as there was before a ``problem``, which the status reports.

    ``failed`` is an error after which the service is tried again.
    """

    resolved: Resolved | None = None
    rendered: Sequence[dict[str, Any]] = ()
    applied: Applied = field(default_factory=Applied)
    problem: Problem | None = None
    failed: OperatorError | None = None


@dataclass
class Reconciler:
    """Reconciles services by their keys. ``now`` returns RFC 3339 times, ``clock`` counts seconds.

    ``home`` is the operator's own namespace; ``use`` replaces the configuration. ``tracer`` gets a span for each step,
    ``restored`` the kind of each child that others had changed.
    """

    api: KubeApi
    cache: Cache
    config: OperatorConfig
    now: Callable[[], str]
    clock: Callable[[], float]
    home: str = ""
    tracer: Tracer = field(default_factory=NoTracer)
    restored: Callable[[str], None] = lambda _kind: None

    def __post_init__(self) -> None:
        self._objects = ObjectReader(self.api, self.clock)
        self._discovery = Discovery(self.api, self.clock)
        self._children = Children(self.api, self.cache, self.clock, self.restored)
        self._details = PodDetails(self.api, self.clock)
        self._observer = Observer(self.cache, self._details)
        self._ending = Ending(self.cache, self.clock)
        self._stages = StageThrottle(self.clock)
        self._resolved: Made[Resolved] = Made()
        self._rendered: Made[list[dict[str, Any]]] = Made()
        self.use(self.config)

    def use(self, config: OperatorConfig) -> None:
        """Use another configuration from now on."""
        self.config = config
        self.cache.hosts.use(config.ingress, self.cache.of_kind(KIND))

    def contested(self) -> int:
        """Return how many children others change or delete again and again, at this moment."""
        return self._children.contested()

    async def reconcile(self, key: ServiceKey, failures: int = 0) -> float | None:
        """Reconcile one service; raises OperatorError if a retry is needed.

        Returns in how many seconds to reconcile it again, if something may change that no watch reports. ``failures``
        is how often this has failed in a row.
        """
        with self.tracer.span("reconcile", {"k8s.namespace.name": key.namespace, "isvc.name": key.name}):
            try:
                return await self._reconcile(key, failures)
            except NamespaceEnding as error:
                log.info("nothing more is written for the services of namespace %s: %s", key.namespace, error)
                self._ending.add(key.namespace)
                return self._ending.left(key) or None

    async def _reconcile(self, key: ServiceKey, failures: int) -> float | None:
        with self.tracer.span("gather"):
            gathered = gather(self.cache, key)
        if gathered is None:
            self._forget(key)
            await release_finalizer(self.api, self.cache, key)
            return None
        if left := self._ending.left(key):
            return left
        service, problem = self.cache.read(gathered.body, read_service)
        config = gathered.config(self.config)
        outcome = (
            ApplyOutcome(problem=problem)
            if problem
            else await self._apply(key, service, gathered, config=config, failures=failures)
        )
        if outcome.applied.created and outcome.problem is None:
            # Where many services are created, all of them get their children first. The first events of the pods have
            # arrived by then, so that one write of the status contains them. Until then what was decided is held.
            self._resolved.hold(key)
            return 0.0
        return await self._report(key, service, gathered, config=config, outcome=outcome)

    def _forget(self, key: ServiceKey) -> None:
        for memory in (self._details, self._children, self._ending, self._stages, self._resolved, self._rendered):
            memory.forget(key)
        self._observer.ignored.forget(key)

    async def _apply(
        self, key: ServiceKey, service: InferenceService, gathered: Gathered, *, config: OperatorConfig, failures: int
    ) -> ApplyOutcome:
        """Resolve, render and apply; raises a transient error, unless it has lasted for so many ``failures``."""
        step, resolved, rendered = self.tracer.span, None, list[dict[str, Any]]()
        try:
            with step("resolve"):
                resolved = None if is_stopped(service) else await self._resolve(key, service, gathered, config)
            with step("render"):
                rendered = self._render(key, resolved, config) if resolved else []
            with step("apply"):
                applied = await self._children.apply(
                    key,
                    gathered.body,
                    rendered=rendered,
                    observed=gathered.children,
                    canaries=canary_requests(service.spec),
                    origin=origin_of(service, resolved),
                    rollouts_per_minute=config.inference_service.rollouts_per_minute,
                )
            return ApplyOutcome(resolved, rendered, applied)
        except NamespaceEnding:
            raise
        except (KubeError, InvalidCredentials) as error:
            if isinstance(error, KubeError) and error.is_transient and failures < REPORT_AFTER:
                raise
            return ApplyOutcome(resolved, rendered, problem=Problem.of(error), failed=error)
        except InvalidSpec as error:
            return ApplyOutcome(resolved, rendered, problem=Problem.of(error))
        except Exception as error:  # reported in the status of the service that triggers it
            log.exception("the operator has failed")
            failed = Unexpected(f"the operator has failed ({type(error).__name__}: {error}); see its log")
            return ApplyOutcome(resolved, rendered, problem=Problem.of(failed), failed=failed)

    async def _report(
        self,
        key: ServiceKey,
        service: InferenceService,
        gathered: Gathered,
        *,
        config: OperatorConfig,
        outcome: ApplyOutcome,
    ) -> float | None:
        """Observe the service, and write its status; raises what has failed before."""
        resolved = outcome.resolved
        with self.tracer.span("observe"):
            observation, requeue_after = await self._observer.observe(
                key,
                service,
                resolved,
                problem=outcome.problem,
                rendered=outcome.rendered,
                applied=outcome.applied,
                config=config,
            )
            status = derive_status(observation, now := self.now())
        wait = self._stages.wait(key, service.status, status)
        if not wait:
            with self.tracer.span("write"):
                await write_status(self.api, self.cache, gathered.body, service=service, status=status, now=now)
            self._stages.forget(key)
        if outcome.failed is not None:
            raise outcome.failed
        resync = RESYNC if resolved and (resolved.refers_to_objects or resolved.waits_for_keda) else None
        times = (wait or None, requeue_after, outcome.applied.requeue_after, resync)
        return min((seconds for seconds in times if seconds is not None), default=None)

    async def _resolve(
        self, key: ServiceKey, service: InferenceService, gathered: Gathered, config: OperatorConfig
    ) -> Resolved:
        storage = await read_storage(self._objects, service, containers=gathered.storage_containers, config=config)
        keda = not asks_for_keda(service) or await self._discovery.has(SCALED_OBJECT)
        resolved = self._resolved.of(
            key,
            (
                *wanted(service),
                gathered.runtimes,
                config,
                storage,
                gathered.taken_hosts,
                gathered.budgets,
                keda,
            ),
            lambda: resolve(
                service,
                gathered.runtimes,
                config,
                storage=storage,
                taken=gathered.taken_hosts,
                budgets=gathered.budgets,
                keda=keda,
            ),
        )
        if resolved.mounts_ca_bundle and (name := config.storage_initializer.ca_bundle_config_map_name):
            await copy_ca_bundle(self._objects, name, home=self.home, namespace=gathered.body["metadata"]["namespace"])
        return resolved

    def _render(self, key: ServiceKey, resolved: Resolved, config: OperatorConfig) -> list[dict[str, Any]]:
        return self._rendered.of(key, (resolved, config), lambda: render(resolved, config))


def origin_of(service: InferenceService, resolved: Resolved | None) -> RenderOrigin:
    """Return what the children are rendered from; a stopped service has none."""
    return RenderOrigin(
        inputs=resolved.inputs if resolved else {},
        own_inputs=resolved.own_inputs if resolved else {},
        version=__version__,
        edited=service.status.observed_generation != service.metadata.generation,
        automatic=resolved is not None and resolved.upgrade_policy is UpgradePolicy.AUTO,
    )
