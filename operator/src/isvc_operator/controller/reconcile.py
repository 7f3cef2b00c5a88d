"""Reconciles one service: its children become what its spec requests, and its status what is observed.

1. gather    the service, runtimes and children                  (the watch cache)
2. resolve   runtime, merged pod, storage, hosts                 pure, once the objects of its storage have been read
3. render    every child                                         pure
4. apply     what differs; delete what is no longer rendered     (the API server)
5. observe   rollout, pods, failures                             pure, except for logs and Events
6. write     the status, once, if it has changed; then Events    (the API server; stages once a second)

``decide`` takes the steps 2 and 3, and says what differs. A service whose children were created by step 4 goes to the
end of the queue: its status is written when it comes again.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from isvc_operator.api.inference_service import KIND
from isvc_operator.config import OperatorConfig
from isvc_operator.controller.adoption import release_finalizer
from isvc_operator.controller.children import Applied, Children
from isvc_operator.controller.gather import gather, with_objects
from isvc_operator.controller.memory import Memories, ServiceMemory
from isvc_operator.controller.pod_details import PodDetails
from isvc_operator.controller.status import Observer, status_wait, write_status
from isvc_operator.decide import Decision, Inputs, decide
from isvc_operator.errors import InvalidCertificate, InvalidCredentials, OperatorError, Problem, Unexpected
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import KubeError, NamespaceEnding, ObjectNotFound
from isvc_operator.kube.informer.cache import Cache, ObjectKey, key_of
from isvc_operator.kube.objects import ObjectReader, copy_ca_bundle
from isvc_operator.kube.requests import decode
from isvc_operator.manifests import ServiceKey
from isvc_operator.observe.status import derive_status
from isvc_operator.telemetry.tracing import NoTracer, Tracer

T = TypeVar("T")

log = logging.getLogger(__name__)

# Seconds. Secrets, service accounts, the installation of KEDA, the room for large objects and how long there are no
# metrics are not watched; only services that depend on them are reconciled again.
RESYNC = 300.0
# Failed attempts before the status reports an API server that is unavailable: four to eight seconds of retries.
REPORT_AFTER = 4
# Of problems that an object which is not watched may end.
_TRIED_AGAIN = (InvalidCredentials.reason, InvalidCertificate.reason)


@dataclass(frozen=True)
class ApplyOutcome:
    """What was decided, and what came of it: all of it, or as much as there was before a problem.

    ``failed`` is an error after which the service is tried again.
    """

    decision: Decision
    applied: Applied = field(default_factory=Applied)
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
        self._children = Children(self.api, self.cache, clock=self.clock, now=self.now, restored=self.restored)
        self._observer = Observer(self.cache, PodDetails(self.api, self.clock))
        self._memories = Memories(self.clock)
        self.use(self.config)

    def use(self, config: OperatorConfig) -> None:
        """Use another configuration from now on."""
        self.config = config
        self.cache.hosts.use(config.ingress, self.cache.of_kind(KIND))

    def contested(self) -> int:
        return self._memories.contested()

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
                self._memories.terminate(key.namespace, self.cache.of_kind(KIND))
                return self._terminating(key) or None

    def _terminating(self, key: ServiceKey) -> float:
        body = self.cache.get(ObjectKey(KIND, *key))
        return self._memories.terminating(key, body["metadata"]["uid"]) if body else 0.0

    async def _reconcile(self, key: ServiceKey, failures: int) -> float | None:
        for refused in self.cache.refused(key):
            await self._read_again(refused)
        with self.tracer.span("gather"):
            inputs = gather(self.cache, key, self.config)
        if inputs is None:
            self._memories.forget(key)
            await release_finalizer(self.api, self.cache, key)
            return None
        if left := self._memories.terminating(key, inputs.uid):
            return left
        memory = self._memories.of(key)
        memory.is_large = key_of(inputs.body) in self.cache.large
        outcome = await self._apply(key, inputs, memory, failures)
        if outcome.applied.created and outcome.decision.problem is None:
            # Where many services are created, all of them get their children first. The first events of the pods have
            # arrived by then, so that one write of the status contains them.
            return 0.0
        return await self._report(key, inputs, memory, outcome)

    async def _read_again(self, key: ObjectKey) -> None:
        """Put an object into the cache for which there was no room before, and is now."""
        if not self.cache.has_room(key):
            return
        with suppress(ObjectNotFound):  # its deletion is reported by the watch
            self.cache.put(decode(await self.api.send(requests.get(*key))))

    async def _apply(self, key: ServiceKey, inputs: Inputs, memory: ServiceMemory, failures: int) -> ApplyOutcome:
        """Decide and apply; raises a transient error, unless it has lasted for so many ``failures``."""
        decision = Decision()
        try:
            inputs = await with_objects(inputs, self._objects)
            found, turn = self._decide(key, inputs, memory)
            name = self.config.storage_initializer.ca_bundle_config_map_name
            if name and found.resolved and found.resolved.mounts_ca_bundle:
                await copy_ca_bundle(self._objects, name, home=self.home, namespace=key.namespace)
            decision = found
            if found.problem:
                again = found.problem.reason in _TRIED_AGAIN
                return ApplyOutcome(found, failed=InvalidCredentials(found.problem.message) if again else None)
            with self.tracer.span("apply"):
                applied = await self._children.apply(inputs, decision, memory)
            if not decision.queued and applied.complete:
                self._memories.turns.forget(key)
            times = [seconds for seconds in (applied.requeue_after, turn) if seconds is not None]
            return ApplyOutcome(decision, replace(applied, requeue_after=min(times, default=None)))
        except NamespaceEnding:
            raise
        except (KubeError, InvalidCredentials) as error:
            if error.is_transient and failures < REPORT_AFTER:
                raise
            return ApplyOutcome(replace(decision, problem=Problem.of(error)), failed=error)
        except Exception as error:  # reported in the status of the service that triggers it
            if any(reference.kind == "Secret" for reference in inputs.objects):  # its text may quote their values
                stack = "".join(traceback.format_tb(error.__traceback__))
                log.error("the operator has failed: %s\n%s", type(error).__name__, stack)
            else:
                log.exception("the operator has failed")
            failed = Unexpected(f"the operator has failed ({type(error).__name__}); see its log")
            return ApplyOutcome(replace(decision, problem=Problem.of(failed)), failed=failed)

    def _decide(self, key: ServiceKey, inputs: Inputs, memory: ServiceMemory) -> tuple[Decision, float | None]:
        """Return the decision, and in how many seconds it is the service's turn if its pods wait for that."""

        def traced(step: str, made_from: tuple[Any, ...], make: Callable[[], T]) -> T:
            with self.tracer.span(step):
                return memory.memo(step, made_from, make)

        per_minute = inputs.config.inference_service.rollouts_per_minute
        decision = decide(replace(inputs, has_turn=not per_minute), traced)
        if not decision.queued:
            return decision, None
        left = self._memories.turns.wait(key, per_minute)
        return (decision, left) if left else (decide(inputs, memory.memo), None)

    async def _report(
        self, key: ServiceKey, inputs: Inputs, memory: ServiceMemory, outcome: ApplyOutcome
    ) -> float | None:
        """Observe the service, and write its status; raises what has failed before."""
        service, resolved = inputs.service, outcome.decision.resolved
        with self.tracer.span("observe"):
            observation, requeue_after = await self._observer.observe(
                key, inputs, outcome.decision, applied=outcome.applied, memory=memory
            )
            status = derive_status(observation, now := self.now())
        wait = status_wait(memory, service.status, status, self.clock(), fight=outcome.applied.fight)
        if not wait:
            with self.tracer.span("write"):
                await write_status(self.api, self.cache, inputs.body, service=service, status=status, now=now)
            memory.stage_since = None
        if outcome.failed is not None:
            raise outcome.failed
        waits = resolved and (resolved.refers_to_objects or resolved.waits_for_keda)
        resync = RESYNC if waits or observation.waits_for_metrics or self.cache.refused(key) else None
        times = (wait or None, requeue_after, outcome.applied.requeue_after, resync)
        return min((seconds for seconds in times if seconds is not None), default=None)
