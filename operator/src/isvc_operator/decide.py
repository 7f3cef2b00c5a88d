"""Decides what becomes of a service, from everything that is known of it. Pure.

The operator decides here, and so do ``isvc diff``, ``isvc migrate``, ``isvc doctor`` and ``isvc run``. They differ in
how they come by the ``Inputs``.

1. resolve    runtime, merged pod, storage, hosts
2. render     every child; its pods may be refused by `podSecurity`
3. pause      rollouts for which the service requests a canary
4. upgrade    keep the pods that would be replaced only because of the operator, or whose turn it is not
5. compare    with the children that exist
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from isvc_operator import __version__
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.storage_container import ClusterStorageContainer
from isvc_operator.config import OperatorConfig, UpgradePolicy
from isvc_operator.errors import InvalidSpec, Problem
from isvc_operator.limits import LOG_BYTES
from isvc_operator.manifests import Manifest, controller_of
from isvc_operator.observe.status import WaitingTemplate
from isvc_operator.plan.changes import ChildChange, managed_by_kserve, plan_changes
from isvc_operator.plan.kept_pods import RenderOrigin, canary_requests, pause_rollouts, plan_upgrade, without_records
from isvc_operator.render.children import render
from isvc_operator.render.pod_security import check_pod_security
from isvc_operator.resolve.component import StorageContext
from isvc_operator.resolve.defaults import refused_parts
from isvc_operator.resolve.requested import is_stopped, storage_requests
from isvc_operator.resolve.runtime import Runtimes
from isvc_operator.resolve.service import Resolved, resolve
from isvc_operator.resolve.storage.plan import Objects
from isvc_operator.resolve.upgrades import InputDigests
from isvc_operator.text import one_line

T = TypeVar("T")


@dataclass(frozen=True)
class Inputs:
    """Everything that a decision about a service depends on.

    ``service`` is what was parsed from ``body``, ``problem`` why it cannot be served as it is stored. ``config`` is
    that of all services. ``objects`` are those that its storage and its TLS refer to. ``children`` have its label, be
    they its own or not. ``taken_hosts`` maps those of its hosts that belong to another service to its
    ``namespace/name``. ``budgets`` are the PodDisruptionBudgets of others in its namespace. ``keda``: the cluster has
    KEDA. ``tls``: pods serve TLS if that is asked for. ``has_turn``: its pods may be replaced now for something that
    services share.
    """

    body: Manifest
    service: InferenceService
    config: OperatorConfig
    problem: Problem | None = None
    runtimes: Runtimes = field(default_factory=Runtimes)
    storage_containers: tuple[ClusterStorageContainer, ...] = ()
    objects: Objects = field(default_factory=dict)
    children: tuple[Manifest, ...] = ()
    taken_hosts: Mapping[str, str] = field(default_factory=dict)
    budgets: tuple[Manifest, ...] = ()
    keda: bool = True
    tls: bool = True
    has_turn: bool = True

    @property
    def own_children(self) -> list[Manifest]:
        return [child for child in self.children if controller_of(child).get("uid") == self.uid]

    @property
    def uid(self) -> str:
        """The service's uid; empty if it is not stored in a cluster."""
        return self.body["metadata"].get("uid") or ""

    @property
    def own_config(self) -> OperatorConfig:
        """The configuration for this service: whether Services are headless cannot change once it has some."""
        services = [child for child in self.own_children if child["kind"] == "Service"]
        if not services:
            return self.config
        return self.config.with_headless_services(all(item["spec"].get("clusterIP") == "None" for item in services))

    @property
    def requested(self) -> tuple[Any, ...]:
        """What the service requests: all but its status, whose writes change its resource version."""
        return self.service.metadata.model_copy(update={"resource_version": None}), self.service.spec

    @property
    def rendered_from(self) -> tuple[Any, ...]:
        return (
            *self.requested,
            self.runtimes,
            self.own_config,
            self.storage_containers,
            self.objects,
            self.taken_hosts,
            self.budgets,
            self.keda,
            self.tls,
        )


@dataclass(frozen=True)
class Decision:
    """What becomes of a service; as much as was decided before a ``problem``, because of which it is left as it is.

    ``rendered`` are its children as its spec requests them, ``children`` those that it should have now: pods of a
    paused rollout, or that wait, are as they exist. ``changes`` turn those that exist into these. ``paused`` has the
    components whose rollout is paused, each with the field that requests a canary, ``waiting`` those whose pods do
    not get the template that is rendered now yet. ``queued``: they wait for the service's turn.
    """

    resolved: Resolved | None = None
    rendered: Sequence[Manifest] = ()
    children: Sequence[Manifest] = ()
    changes: Sequence[ChildChange] = ()
    paused: Mapping[str, str] = field(default_factory=dict)
    waiting: Mapping[str, WaitingTemplate] = field(default_factory=dict)
    queued: bool = False
    problem: Problem | None = None


class Memo(Protocol):
    """Returns ``make()``, or what it returned for a step when its inputs were equal."""

    def __call__(self, step: str, inputs: tuple[Any, ...], make: Callable[[], T], /) -> T:
        """Return the result of the step."""


def made_anew(_step: str, _inputs: tuple[Any, ...], make: Callable[[], T]) -> T:
    return make()


def decide(inputs: Inputs, memo: Memo = made_anew) -> Decision:
    decision = Decision()
    if inputs.problem:
        return replace(decision, problem=_with_others(inputs.problem, inputs.service))
    config = inputs.own_config
    try:
        if not is_stopped(inputs.service):
            resolved = memo("resolve", inputs.rendered_from, lambda: _resolved(inputs, config))
            decision = replace(decision, resolved=resolved)
            decision = replace(decision, rendered=memo("render", (resolved, config), lambda: render(resolved, config)))
            if config.pod_security.restricted:
                check_pod_security(decision.rendered, config, inputs.body["metadata"].get("namespace") or "")
        return _compared(inputs, decision)
    except InvalidSpec as error:
        return replace(decision, problem=_with_others(Problem.of(error), inputs.service))


def _with_others(problem: Problem, service: InferenceService) -> Problem:
    """Return a problem with the others of the service that it hides: the first one ends the steps."""
    others = (text for text in refused_parts(service) if text not in problem.message)
    return replace(problem, message=one_line(". Also: ".join((problem.message, *others)), LOG_BYTES))


def _resolved(inputs: Inputs, config: OperatorConfig) -> Resolved:
    storage = StorageContext(storage_requests(inputs.service), inputs.storage_containers, inputs.objects)
    return resolve(
        inputs.service,
        inputs.runtimes,
        config,
        storage=storage,
        taken=inputs.taken_hosts,
        budgets=inputs.budgets,
        keda=inputs.keda,
        tls=inputs.tls,
    )


def _compared(inputs: Inputs, decision: Decision) -> Decision:
    """Return the decision with what follows from the children that exist."""
    owned = inputs.own_children
    children, paused = pause_rollouts(decision.rendered, owned, canary_requests(inputs.service.spec))
    resolved, service = decision.resolved, inputs.service
    origin = RenderOrigin(
        inputs=resolved.inputs if resolved else InputDigests(),
        version=__version__,
        edited=service.status.observed_generation != service.metadata.generation,
        automatic=resolved is not None and resolved.upgrade_policy is UpgradePolicy.AUTO,
    )
    upgrade = plan_upgrade(children, owned, origin, paused=paused, in_turn=not inputs.has_turn)
    kserves = managed_by_kserve(inputs.body)
    changes = plan_changes(upgrade.children, inputs.children, inputs.uid, managed_by_kserve=kserves)
    return replace(
        decision,
        children=upgrade.children,
        changes=without_records(changes, owned) if upgrade.queued else changes,
        paused=paused,
        waiting=upgrade.waiting,
        queued=upgrade.queued,
    )
