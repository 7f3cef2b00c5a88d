"""One service brought to what its spec says, and its status to what is true.

1. gather    the service, runtimes, children and pods            (the watch cache)
2. resolve   runtime, merged pod, storage, hosts                 pure, once what storage refers to has been read
3. render    every child                                         pure
4. apply     what differs; prune what is no longer wanted        (the API server)
5. observe   rollout, pods, failures                             pure, but for what only logs and Events tell
6. write     the status, once, if it changed; then its Event     (the API server)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from isvc_operator.api.errors import InvalidObject
from isvc_operator.api.inference_service import (
    KIND,
    InferenceService,
    InferenceServiceStatus,
    parse_inference_service,
)
from isvc_operator.api.names import EXPLAINER, LABEL_APP, LABEL_COMPONENT, PREDICTOR, TRANSFORMER, app_label
from isvc_operator.api.unknown_fields import unknown_fields
from isvc_operator.config import OperatorConfig
from isvc_operator.errors import InvalidCredentials, InvalidSpec, OperatorError, Unexpected
from isvc_operator.kube import requests
from isvc_operator.kube.adoption import let_go, remove_ingress, was_kserves
from isvc_operator.kube.apply import carry_out, plan
from isvc_operator.kube.ca_bundle import mirror_ca_bundle
from isvc_operator.kube.cache import Cache, Manifest, ServiceKey
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import Conflict, KubeError, NotFound
from isvc_operator.kube.gather import Gathered, gather
from isvc_operator.kube.handover import Due, Handover
from isvc_operator.kube.objects import ObjectReader
from isvc_operator.kube.pod_details import ComponentKey, PodDetails
from isvc_operator.limits import LOG_BYTES, NAMED
from isvc_operator.observe.component import Seen
from isvc_operator.observe.events import events_for
from isvc_operator.observe.pods import first_failure, furthest, newest_revision, stage
from isvc_operator.observe.rollout import rollout_of
from isvc_operator.observe.status import Observation, derive_status
from isvc_operator.render import render
from isvc_operator.resolve import Resolved, is_stopped, resolve
from isvc_operator.resolve.storage import StorageContext
from isvc_operator.resolve.storage_request import references
from isvc_operator.resolve.support import refused_annotations, unsupported_annotations, unsupported_fields
from isvc_operator.text import one_line

log = logging.getLogger(__name__)

# Seconds. Of secrets and service accounts no watch tells; services that refer to none are not looked at again.
RESYNC = 300.0
# Failed attempts: about eight seconds of the worker's retries.
TOLD_AFTER = 4

Problem = tuple[str, str]  # reason and message of what stands in the way


@dataclass
class Reconciler:
    """Reconciles services by their keys. ``now`` gives RFC 3339 times; ``use`` replaces the configuration at any time.

    ``home`` is the operator's own namespace.
    """

    api: KubeApi
    cache: Cache
    objects: ObjectReader
    details: PodDetails
    handover: Handover
    config: OperatorConfig
    now: Callable[[], str]
    home: str = ""
    _without_ingress: set[ServiceKey] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.use(self.config)

    def use(self, config: OperatorConfig) -> None:
        """Go by another configuration from now on."""
        self.config = config
        self.cache.hosts.use(config.ingress, self.cache.of_kind(KIND))

    async def reconcile(self, key: ServiceKey, failures: int = 0) -> float | None:
        """Bring one service up to date; raises OperatorError where a retry is needed.

        Returns in how many seconds to look again, where something may change that no watch tells. ``failures`` is how
        often this has failed in a row: the status does not tell at once of an API server that does not answer.
        """
        gathered = gather(self.cache, key)
        if gathered is None:
            self.details.forget(key)
            self.handover.forget(key)
            self._without_ingress.discard(key)
            await let_go(self.api, self.cache, key)
            return None
        service, problem = _read(gathered.body)
        resolved: Resolved | None = None
        failed: OperatorError | None = None
        due = Due()
        if problem is None:
            try:
                resolved = None if is_stopped(service) else await self._resolve(service, gathered)
                due = await self._apply(key, service, resolved, gathered)
            except (KubeError, InvalidCredentials) as error:
                if isinstance(error, KubeError) and error.may_pass and failures < TOLD_AFTER:
                    raise
                failed, problem = error, _problem(error)
            except InvalidSpec as error:
                problem = _problem(error)
            except Exception as error:  # the service that it is about must hear of it, too
                log.exception("%s/%s: the operator has failed", key.namespace, key.name)
                failed = Unexpected(f"the operator has failed ({type(error).__name__}: {error}); its log has the rest")
                problem = _problem(failed)
        observation, again = await self._observe(key, service, resolved, problem, held=due.held)
        await self._write(service, gathered.body, derive_status(observation, self.now()))
        if failed is not None:
            raise failed
        resync = RESYNC if resolved and resolved.refers_to_objects else None
        return min((seconds for seconds in (again, due.again, resync) if seconds is not None), default=None)

    async def _resolve(self, service: InferenceService, gathered: Gathered) -> Resolved:
        credentials, namespace = self.config.credentials, service.metadata.namespace or ""
        objects = await self.objects.read_all(namespace, lambda known: references(service, credentials, known))
        context = StorageContext(gathered.storage_containers, objects)
        config, taken = self._config_for(gathered), gathered.taken_hosts
        resolved = resolve(service, gathered.runtimes, config, context, taken=taken)
        name = self.config.storage_initializer.ca_bundle_config_map_name
        if name and resolved.mounts_ca_bundle:
            await mirror_ca_bundle(self.objects, name, self.home, namespace)
        return resolved

    async def _apply(
        self, key: ServiceKey, service: InferenceService, resolved: Resolved | None, gathered: Gathered
    ) -> Due:
        """A stopped service wants no children. One that cannot be resolved does not come here: what runs, stays."""
        wanted = render(resolved, self._config_for(gathered)) if resolved else []
        inherited = was_kserves(gathered.body)
        changes = plan(wanted, gathered.children, service.metadata.uid or "", inherited=inherited)
        due = self.handover.due(key, changes, wanted, gathered.children)
        await carry_out(self.api, self.cache, due.changes)
        if inherited and not any(child["kind"] == "Ingress" for child in (*wanted, *gathered.children)):
            await self._remove_ingress(key, gathered.body)
        return due

    async def _remove_ingress(self, key: ServiceKey, body: Manifest) -> None:
        """Once: KServe's controller makes no other."""
        if key not in self._without_ingress:
            await remove_ingress(self.api, body)
            self._without_ingress.add(key)

    def _config_for(self, gathered: Gathered) -> OperatorConfig:
        """The configuration; what it says of headless Services holds for those that are still to be made."""
        if gathered.headless is None:
            return self.config
        section = self.config.service.model_copy(update={"service_cluster_ip_none": gathered.headless})
        return self.config.model_copy(update={"service": section})

    async def _observe(
        self,
        key: ServiceKey,
        service: InferenceService,
        resolved: Resolved | None,
        problem: Problem | None,
        *,
        held: bool,
    ) -> tuple[Observation, float | None]:
        labelled = tuple(self.cache.of_service(key))
        stopped = is_stopped(service)
        seen = [
            await self._observe_component(ComponentKey(key, kind), name, labelled, stopped=stopped)
            for kind, name in _components(service, resolved)
        ]
        observation = Observation(
            service=service,
            resolved=resolved,
            components=[component for component, _ in seen],
            ingress_exists=_named(labelled, "Ingress", key.name) is not None,
            stopped=stopped,
            held=held,
            problem=problem,
            ignored=(
                *unknown_fields(service),
                *unsupported_fields(service.spec),
                *map(one_line, unsupported_annotations(service)),
                *islice(refused_annotations(service, self.config.ingress), NAMED),
            ),
        )
        return observation, min((again for _, again in seen if again is not None), default=None)

    async def _observe_component(
        self, key: ComponentKey, name: str, labelled: Iterable[Manifest], *, stopped: bool
    ) -> tuple[Seen, float | None]:
        pods = newest_revision(pod for pod in labelled if pod["kind"] == "Pod" and _is_of(pod, key.kind, name))
        failure = None if stopped else first_failure(pods)
        detail = await self.details.of_starting(key, None if stopped or failure else furthest(pods))
        seen = Seen(
            kind=key.kind,
            rollout=rollout_of(_named(labelled, "Deployment", name)),
            pods=pods,
            failure=failure or detail.failure,
            stage=stage(pods),
            log=await self.details.log_of(key, failure) or detail.log,
            progress=detail.progress,
        )
        return seen, detail.again

    async def _write(self, service: InferenceService, body: Manifest, status: InferenceServiceStatus) -> None:
        before, after = dict(body.get("status") or {}), status.as_dict()
        patch = merge_patch(before, after)
        if not patch:
            return
        self.cache.expect({**body, "status": after})
        try:
            answer = await self.api.send(requests.patch_status(body, patch))
        except NotFound:  # and no watch has told
            self.cache.remove(body)
            return
        except Conflict:  # it has changed, or gone and come again: the event of that queues it
            return
        self.cache.put(json.loads(answer))
        for event in events_for(service, status, self.now()):
            await self.api.send(requests.create_event(event))


def _read(body: Manifest) -> tuple[InferenceService, Problem | None]:
    """The service. One without its kind's shape (stored under another CRD) is read without its spec, to be told so."""
    try:
        return parse_inference_service(body), None
    except InvalidObject as error:
        problem = _problem(InvalidSpec(str(error)))
    bare = {**body, "spec": {"predictor": {}}}
    try:
        return parse_inference_service(bare), problem
    except InvalidObject:  # its status is not of this kind either
        return parse_inference_service({**bare, "status": {}}), problem


def _problem(error: OperatorError) -> Problem:
    """Its words are one line, whatever of the user's or the API server's it quotes."""
    return error.reason, one_line(str(error), LOG_BYTES)


def _components(service: InferenceService, resolved: Resolved | None) -> list[tuple[str, str]]:
    """Kinds and names of the components; those of a service that is not resolved have no Deployment to look at."""
    if resolved:
        return [(item.kind, item.name) for item in resolved.components]
    spec = service.spec
    wanted = ((PREDICTOR, spec.predictor), (TRANSFORMER, spec.transformer), (EXPLAINER, spec.explainer))
    return [(kind, "") for kind, component in wanted if component]


def _is_of(pod: Manifest, kind: str, name: str) -> bool:
    """Whether it is the component's, and not of a predictor that had another name."""
    labels = pod["metadata"]["labels"]
    return labels.get(LABEL_COMPONENT) == kind and (not name or labels.get(LABEL_APP) == app_label(name))


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch (RFC 7386) that turns ``before`` into ``after``; empty where they are equal."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        known = before.get(name)
        if isinstance(value, Mapping) and isinstance(known, Mapping):
            if inner := merge_patch(known, value):
                patch[name] = inner
        elif value != known:
            patch[name] = value
    return patch


def _named(objects: Iterable[Manifest], kind: str, name: str) -> Manifest | None:
    matches = (item for item in objects if item["kind"] == kind and item["metadata"]["name"] == name)
    return next(matches, None)
