"""A service on this machine: its Deployments, the ports of its Services, its routes and its status."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import aiohttp

from isvc.extras import advice, missing_for
from isvc.limits import KEPT_EVENTS
from isvc.run.children import Rendered
from isvc.run.clock import now
from isvc.run.container import Machine, program_of_ours
from isvc.run.deployment import LocalDeployment
from isvc.run.endpoints import Endpoints
from isvc.run.errors import RunFailed, UnusableInput
from isvc.run.ingress import service_port
from isvc.run.kubelet import LocalPod, PodListener
from isvc.run.pod import PodPlan, plan_pod
from isvc.run.processes import Group, elsewhere, together
from isvc.run.routes import IngressRoute, ServicePort, addresses_of, ingress_routes, service_ports
from isvc.run.stored import TEMPLATE_HASH, pod_event, replicas_of, requested_replicas, restarted, stored
from isvc.view.log_ends import LogEnd, wanted
from isvc.view.pods import with_logs
from isvc.view.source import Related
from isvc.view.values import OLDER_SERVE
from isvc_operator.api.names import LABEL_COMPONENT, LABEL_VISIBILITY, PREDICTOR, READY
from isvc_operator.api.parsing import parse_inference_service
from isvc_operator.limits import LOG_BYTES
from isvc_operator.manifests import Event, Manifest, ServiceKey, condition_of, labels_of, name_of
from isvc_operator.observe.component import observe_component
from isvc_operator.observe.events import events_for
from isvc_operator.observe.status import Observation, derive_status
from isvc_operator.render.routes import routes_of
from isvc_operator.resolve.ignored import ignored_parts, ignored_parts_of_runtime
from isvc_operator.resolve.requested import components_of, model_of
from isvc_operator.text import block, last_of

_WAY_OUT: Final = "correct what failed above and save the file: new pods start then"


@dataclass(frozen=True)
class Settings:
    """The folders of ``--pvc``, the port of the ingress, this machine's environment, and commands for images."""

    claims: Mapping[str, Path]
    http_port: int
    environment: Mapping[str, str]
    images: Mapping[str, tuple[str, ...]]


@dataclass
class Node:
    """What services run on: the processes of the run, a session for probes, and who is told of what.

    ``changed`` gets the key of a service, ``failed`` why a container is not running. Names of processes have their
    namespace where there are several.
    """

    group: Group
    session: aiohttp.ClientSession
    settings: Settings
    changed: Callable[[ServiceKey], None]
    failed: Callable[[RunFailed], None]
    several_namespaces: bool = False

    def __post_init__(self) -> None:
        self._folders = count()
        self._given_ports: set[int] = set()

    def folder(self) -> Path:
        """Return a new folder; its path is short, as those of Unix sockets have to be."""
        return self.group.folder / str(next(self._folders))

    def free_port(self) -> int:
        """Return a port that nobody has, and that no other container of the run was given."""
        while True:
            with socket.socket() as listener:
                listener.bind(("", 0))  # some servers listen on all addresses
                port: int = listener.getsockname()[1]
            if port not in self._given_ports:
                self._given_ports.add(port)
                return port


class LocalService:
    """A service. ``rendered`` is what it was last changed to; nothing of that runs before ``apply``."""

    def __init__(self, node: Node, key: ServiceKey) -> None:
        self.key = key
        self.routes: tuple[IngressRoute, ...] = ()
        self.rendered: Rendered
        self.body: Manifest
        self._node = node
        self._stack = AsyncExitStack()
        self._ports: dict[ServicePort, tuple[Endpoints, int]] = {}
        self._children: dict[tuple[str, str], Manifest] = {}
        self._deployments: dict[str, LocalDeployment] = {}
        self._next_routes: tuple[IngressRoute, ...] | None = None
        self._restarts: dict[str, str] = {}
        self._events: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._removals: set[asyncio.Task[None]] = set()
        self._clock = asyncio.get_running_loop().time
        self._began = 0.0
        self._ready_after: float | None = None
        self._has_predicted = False
        self._is_changed = False
        self._changed_file = ""  # until the pods that are made of it serve
        self._said: dict[str, tuple[str, str]] = {}  # of a Deployment: the template that failed, and who serves

    async def check(self, rendered: Rendered) -> None:
        """Check whether it can run here; raises UnusableInput. Opens the ports of its Services."""
        is_alone = len(_deployments(rendered)) == 1  # else components call each other by these ports, too
        for port in service_ports(rendered.children):
            if port not in self._ports:
                endpoints = Endpoints()
                listening = _listening(port, endpoints, self.predicted if is_alone else lambda _: None)
                self._ports[port] = endpoints, await self._stack.enter_async_context(listening)
        model = model_of(rendered.service.spec.predictor)
        model_format = model.model_format.name if model else ""
        for deployment in _deployments(rendered):
            pod = plan_pod(deployment, self._machine(rendered, deployment))
            _require_installed(pod, model_format)
            _require_programs(pod)
        if not self._routes_of(rendered) or not rendered.resolved.hosts.service:
            raise UnusableInput(f"InferenceService {self.key.name} {_unreachable(rendered)}")

    def apply(self, rendered: Rendered) -> None:
        """Change the service to what was checked: pods whose template differs are replaced."""
        at = now()
        first = not self._deployments
        self._is_changed = not first
        self.rendered = rendered
        self.body = stored(rendered.service.as_dict() | {"status": {}}, None if first else self.body, at)
        before, self._children = self._children, {}
        for child in rendered.children:
            id_ = child["kind"], name_of(child)
            self._children[id_] = stored(self._completed(child), before.get(id_), at)
        routes = self._routes_of(rendered)
        self._next_routes = routes
        if first:
            self.routes, self._began = routes, self._clock()
        for (kind, name), child in self._children.items():
            if kind != "Deployment":
                continue
            start_pod = partial(self._start_pod, rendered, child)
            if name in self._deployments:
                self._deployments[name].use(child, start_pod)
            else:
                self._deployments[name] = LocalDeployment(child, start_pod, self._drained)
        self._changed()

    def restart(self, deployments: Iterable[str], file: str) -> None:
        """Replace the pods of these Deployments, as ``kubectl rollout restart`` does, because a file has changed."""
        self._changed_file = file
        self._restarts.update(dict.fromkeys(deployments, now()))
        self.apply(self.rendered)

    async def stop(self) -> None:
        """End its processes, without waiting for requests."""
        async with self._stack:
            await together(*self._removals, *(deployment.stop() for deployment in self._deployments.values()))

    async def remove(self) -> None:
        """End its processes when they have no more requests."""
        async with self._stack:
            await together(*self._removals, *(deployment.remove() for deployment in self._deployments.values()))

    def pods(self) -> list[LocalPod]:
        """Return its pods, also those that are ending."""
        return [pod for deployment in self._deployments.values() for pod in deployment.pods]

    @property
    def is_busy(self) -> bool:
        """Whether it has a request."""
        return any(endpoints.are_busy for endpoints, _ in self._ports.values())

    def plans(self) -> Mapping[str, PodPlan]:
        """Return the plan of the newest pod of each Deployment."""
        return {name: item.pods[-1].plan for name, item in self._deployments.items() if item.pods}

    def _is_starting(self) -> bool:
        """Whether a pod of its predictor is not ready, and has not failed so far; other components wait for it."""
        predictors = [pod for pod in self.pods() if labels_of(pod.manifest).get(LABEL_COMPONENT) == PREDICTOR]
        return any(not pod.is_ready and not pod.is_ending and not pod.has_failed for pod in predictors)

    def pod(self, name: str) -> LocalPod | None:
        """Return the pod of this name."""
        return next((pod for pod in self.pods() if pod.name == name), None)

    def grpc_port(self) -> int | None:
        """Return the port of this machine for gRPC; None if the service has none."""
        found = (self._ports[port][1] for port in service_ports(self.rendered.children) if port.is_grpc)
        return next(found, None)

    def update_status(self) -> list[Event]:
        """Derive the status from its objects, by the operator's code; return the new Events on the service."""
        at, service = now(), parse_inference_service(self.body)
        observation = self._observe()
        status = derive_status(replace(observation, service=service), at)
        events = events_for(service, status, at)
        self._events.extend(events)
        self.body = {**self.body, "status": status.as_dict()}
        if self._ready_after is None and self.is_ready:
            self._ready_after = self._clock() - self._began
        return list(events)

    @property
    def ready(self) -> Mapping[str, Any]:
        """The condition ``Ready``, as it was last derived; empty if there is none yet."""
        return condition_of(self.body, READY)

    @property
    def is_ready(self) -> bool:
        """Whether it is ready."""
        return self.ready.get("status") == "True"

    @property
    def health(self) -> str:
        """Whether it is ready, in words, and if not, whether it has the pods from before a change."""
        older = any(deployment.keeps_old_pods for deployment in self._deployments.values())
        return "ready" if self.is_ready else f"not ready, {OLDER_SERVE}" if older else "not ready"

    @property
    def has_failed(self) -> bool:
        """Whether it does not become ready without a change."""
        return self.ready.get("status") == "False"

    @property
    def is_settled(self) -> bool:
        """Whether it is ready, or has failed; a predictor that starts is waited for whatever else has failed."""
        return self.is_ready or (self.has_failed and not self._is_starting())

    def predicted(self, seconds: float) -> None:
        """Print how long the first prediction took, and how long the service until it was ready."""
        if not self._has_predicted:
            self._has_predicted = True
            ready = self._ready_after or self._clock() - self._began - seconds
            line = f"{self.key.name}: ready after {ready:.1f} s; its first prediction took {seconds:.2f} s"
            self._node.group.output.note(line)

    def related(self) -> Related:
        """Return the service and its objects, as a cluster would have them."""
        own, pods = self.rendered.runtimes, [pod.manifest for pod in self.pods()]
        return Related(
            service=self.body,
            children=self._objects(),
            pods=pods,
            events=list(self._events),
            runtimes=[item.as_dict() for item in (*own.namespaced, *own.cluster)],
            logs={(end.pod, end.container): self._log(end) for end in wanted(pods)},
        )

    def _objects(self) -> list[Manifest]:
        deployments = [deployment.manifest for deployment in self._deployments.values()]
        return [*deployments, *(child for (kind, _), child in self._children.items() if kind != "Deployment")]

    def _completed(self, child: Manifest) -> Manifest:
        """Return a Deployment with the number of its pods, and with the last restart of them."""
        if child["kind"] != "Deployment":
            return child
        requested = requested_replicas(child, self.rendered.children)
        if (replicas := replicas_of(requested)) < requested:
            self._node.group.output.say(f"{name_of(child)}: {replicas} of {requested} pods run on this machine")
        child = {**child, "spec": {**child["spec"], "replicas": replicas}}
        at = self._restarts.get(name_of(child))
        return restarted(child, at) if at else child

    def _routes_of(self, rendered: Rendered) -> tuple[IngressRoute, ...]:
        endpoints = {(port.service, port.port): self._ports[port][0] for port in service_ports(rendered.children)}
        return ingress_routes(routes_of(rendered.resolved), endpoints, self.key)

    def _machine(self, rendered: Rendered, deployment: Manifest, tag: str = "") -> Machine:
        """Return the environment of a pod: the components before its own can be called by their Services."""
        deployments = list(_deployments(rendered))
        names = list(map(name_of, deployments))
        before = deployments[: names.index(name_of(deployment))]
        ports = [(port, self._ports[port][1]) for port in service_ports(rendered.children)]
        return Machine(
            folder=self._node.folder(),
            claims=self._node.settings.claims,
            environment=self._node.settings.environment,
            python=sys.executable,
            free_port=self._node.free_port,
            objects=rendered.objects,
            addresses=addresses_of(ports, self.key.namespace, [_pod_labels(item) for item in before]),
            images=self._node.settings.images,
            prefix=f"{self.key.namespace}/" if self._node.several_namespaces else "",
            tag=tag,
        )

    def _start_pod(self, rendered: Rendered, deployment: Manifest, manifest: Manifest, tag: str) -> LocalPod:
        planned = partial(plan_pod, deployment, self._machine(rendered, deployment, tag))
        listener = PodListener(self._changed, self._pod_event, partial(self._failed, name_of(deployment), manifest))
        return LocalPod(manifest, planned, self._node.group, self._node.session, listener)

    async def _drained(self, pod: LocalPod) -> None:
        """Return when the ingress has no request for a pod; a pod of an older spec may lack a port of the newest."""
        for port, (endpoints, _) in self._ports.items():
            local = pod.plan.ports.get(port.target)
            if local is not None and port.selects(labels_of(pod.manifest)):
                await endpoints.until_free(local)

    def _changed(self) -> None:
        """Send requests to the pods that are ready now, and let the Deployments look at their pods."""
        pods = self.pods()
        for port, (endpoints, _) in self._ports.items():
            ready = [pod for pod in pods if pod.is_ready and port.selects(labels_of(pod.manifest))]
            endpoints.use({pod.plan.ports[port.target]: pod.runs for pod in ready if port.target in pod.plan.ports})
        self._move_traffic()
        for deployment in list(self._deployments.values()):
            deployment.roll()
        self._node.changed(self.key)

    def _move_traffic(self) -> None:
        """Use the routes of the newest spec when all of its pods serve, and end components that it does not have."""
        if self._next_routes is None:
            return
        wanted = [name for kind, name in self._children if kind == "Deployment"]
        if not all(self._deployments[name].is_complete for name in wanted if name in self._deployments):
            return
        self.routes, self._next_routes = self._next_routes, None
        self._said.clear()
        if self._changed_file:
            self._node.group.output.note(f"{self.key.name} serves the change of {self._changed_file}")
            self._changed_file = ""
        for name in set(self._deployments) - set(wanted):
            task = asyncio.create_task(self._deployments.pop(name).remove())
            self._removals.add(task)
            task.add_done_callback(self._removals.discard)

    def _pod_event(self, pod: Manifest, type_: str, reason: str, message: str) -> None:
        self._events.append(pod_event(pod, type_, reason=reason, message=message, now=now()))
        self._node.changed(self.key)

    def _failed(self, name: str, pod: Manifest, failure: RunFailed) -> None:
        """Print why a container is not running; if a change is the cause, also who serves, and what to do."""
        self._node.failed(failure)
        deployment = self._deployments.get(name)  # None if the change has removed it
        is_rolling = self._is_changed and self._next_routes is not None
        if deployment is None or not is_rolling or not deployment.is_newest(pod):
            return
        if deployment.keeps_old_pods or not any(it.is_ready for it in deployment.pods):
            serves = OLDER_SERVE if deployment.keeps_old_pods else "no pod serves"
            said = labels_of(pod)[TEMPLATE_HASH], serves
            if self._said.get(name) != said:  # once for a change, not at each failure of its pods
                self._said[name] = said
                self._node.group.output.say(f"{name}: {serves}; {_WAY_OUT}")

    def _observe(self) -> Observation:
        resolved, related = self.rendered.resolved, self.related()
        labelled = [*related.children, *related.pods]
        known = {item.kind: item for item in resolved.components}
        components = [
            with_logs(observe_component(item.kind, known.get(item.kind), labelled, stopped=False), related)
            for item in components_of(self.rendered.service)
        ]
        of_runtime = ignored_parts_of_runtime(resolved.chosen.runtime) if resolved.chosen else ()
        return Observation(
            service=self.rendered.service,
            resolved=resolved,
            components=components,
            # Without missing models: here they are refused, and a path without a scheme is one of this machine.
            ignored=(*ignored_parts(self.rendered.service, resolved, self.rendered.config), *of_runtime),
        )

    def _log(self, end: LogEnd) -> str:
        pod = self.pod(end.pod)
        lines = pod.log(end.container, previous=end.previous).last(end.lines) if pod else []
        return last_of(block("\n".join(lines)), LOG_BYTES)


def _listening(
    port: ServicePort, endpoints: Endpoints, predicted: Callable[[float], None]
) -> AbstractAsyncContextManager[int]:
    """Return what listens for a port of a Service, on a port of this machine that stays when pods are replaced.

    ``predicted`` is told of predictions over gRPC, which clients send there; those over HTTP come by the ingress.
    """
    if not port.is_grpc:
        return service_port(port.service, endpoints)
    from isvc.run.grpc_proxy import grpc_proxy  # here, because it takes long to import

    return grpc_proxy(port.service, endpoints, predicted)


def _require_installed(pod: PodPlan, model_format: str) -> None:
    """Raise UnusableInput if a program of ours would not start."""
    for process in (*pod.init, *pod.servers):
        program = program_of_ours(process.command[1:])
        if program and (missing := missing_for(program, model_format)):
            raise UnusableInput(f"{process.name} runs {program}: {advice(missing, model_format)}")


def _require_programs(pod: PodPlan) -> None:
    """Raise UnusableInput if the file that Python runs is in another folder than the one in which it would start."""
    for process in pod.servers:
        program, *arguments = process.command
        if program != sys.executable or not arguments or not arguments[0].endswith(".py"):
            continue
        file = Path.cwd() / (process.working_dir or "") / arguments[0]
        if not file.exists() and not file.is_relative_to(pod.folder):  # which a container before it may fill
            raise UnusableInput(f"{process.name}: {elsewhere(file)}")


def _deployments(rendered: Rendered) -> Sequence[Manifest]:
    return [child for child in rendered.children if child["kind"] == "Deployment"]


def _pod_labels(deployment: Manifest) -> Mapping[str, str]:
    labels: Mapping[str, str] = deployment["spec"]["template"]["metadata"]["labels"]
    return labels


def _unreachable(service: Rendered) -> str:
    """Return why the service has no route, and what to do."""
    if guards := service.resolved.ingress_annotations.guards:
        return (
            f"has annotations that restrict access and are not allowed: {', '.join(guards)}; allow them in the "
            "configuration (allowedServiceAnnotations), or remove them"
        )
    if taken := service.resolved.hosts.taken:
        hosts = ", ".join(f"{host} ({holder})" for host, holder in taken.items())
        return f"has no host: its hosts belong to other services: {hosts}; rename it, or use another namespace"
    return (
        "can only be called inside a cluster; "
        f"remove its label {LABEL_VISIBILITY}, or allow ingresses in the configuration"
    )
