"""``isvc run``: runs the rendered children of services on this machine.

1. plan      pods and routes                                       pure, except for the free ports
2. listen    the ingress; it returns 503 until a server is up
3. prepare   folders, then the init containers, one after another
4. start     the servers, until each is ready
5. use       one request, or print the URLs and wait for a signal
6. stop      the ingress first (requests in progress are finished), then the servers, then the folders
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from isvc_operator.api.names import LABEL_VISIBILITY
from isvc_operator.local.caller import Endpoint, model_names, predict, predict_path
from isvc_operator.local.children import Rendered
from isvc_operator.local.container import LOOPBACK
from isvc_operator.local.errors import UnusableInput
from isvc_operator.local.ingress import ingress
from isvc_operator.local.pod import Machine, Pod, plan_pod
from isvc_operator.local.processes import Group, Running, process_group
from isvc_operator.local.readiness import until_ready
from isvc_operator.local.routes import IngressRoute, addresses_of, grpc_port, ingress_routes
from isvc_operator.manifests import Manifest
from isvc_operator.render.routes import routes_of

T = TypeVar("T")
Write = Callable[[str], None]

_NOT_ENFORCED = (
    "resource limits, users, read-only mounts, NetworkPolicies and TLS between servers are not enforced on this machine"
)


@dataclass(frozen=True)
class Settings:
    """The folders of ``--pvc``, the port of the ingress, and this machine's environment."""

    claims: Mapping[str, Path]
    http_port: int
    environment: Mapping[str, str]


@dataclass(frozen=True)
class ServicePlan:
    """One service: its endpoint, its pods, and the routes to them."""

    endpoint: Endpoint
    pods: tuple[Pod, ...]
    routes: tuple[IngressRoute, ...]


@dataclass(frozen=True)
class Served:
    """Services that are ready, and the processes behind them."""

    endpoints: tuple[Endpoint, ...]
    servers: tuple[Running, ...]


async def serve(
    services: Sequence[Rendered], settings: Settings, *, sample: str, write: Write, announce: Write
) -> None:
    """Serve until cancelled; raises RunFailed if a process fails. The printed command sends ``sample``."""
    async with _served(services, settings, write) as served:
        for endpoint in served.endpoints:
            announce(f"\n{endpoint.service} is served at {endpoint.url} for Host {endpoint.host}")
            for name in await model_names(endpoint):
                announce(f"  {endpoint.curl(predict_path(name), sample)}")
            if endpoint.grpc_port:
                announce(f"  gRPC: {LOOPBACK}:{endpoint.grpc_port}")
        announce("Ctrl-C stops it.\n")
        await asyncio.wait([server.exited for server in served.servers], return_when=asyncio.FIRST_COMPLETED)
        raise next(server.failure() for server in served.servers if server.exited.done())


async def request_once(services: Sequence[Rendered], settings: Settings, *, body: bytes, write: Write) -> str:
    """Serve for one request, and return the response; raises RunFailed if it fails."""
    if len(services) != 1:
        raise UnusableInput(f"--request requires one InferenceService, and there are {len(services)}")
    async with _served(services, settings, write) as served:
        return await predict(served.endpoints[0], body)


async def until_signal(work: Coroutine[Any, Any, T], write: Write) -> T | None:
    """Return the result of ``work``, or None if SIGINT or SIGTERM has stopped it; a second signal stops it faster."""
    task = asyncio.ensure_future(work)

    def stop() -> None:
        write("stopping")
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        return await task
    except asyncio.CancelledError:
        return None


@asynccontextmanager
async def _served(services: Sequence[Rendered], settings: Settings, write: Write) -> AsyncIterator[Served]:
    async with process_group(settings.environment, write) as group:
        plans = [_plan(service, settings, group.folder / str(number)) for number, service in enumerate(services)]
        async with ingress([route for plan in plans for route in plan.routes], settings.http_port):
            write(_NOT_ENFORCED)
            pods = [pod for plan in plans for pod in plan.pods]
            for pod in pods:
                await _prepare(pod, group)
            servers = [(await group.start(process), pod) for pod in pods for process in pod.servers]
            await _all_ready(servers, write)
            yield Served(tuple(plan.endpoint for plan in plans), tuple(server for server, _ in servers))


async def _all_ready(servers: Sequence[tuple[Running, Pod]], write: Write) -> None:
    """Wait for all servers concurrently, so that the first one to fail is reported at once; raises RunFailed."""
    waiting = [asyncio.create_task(until_ready(server, pod.deadline, write)) for server, pod in servers]
    try:
        await asyncio.gather(*waiting)
    finally:
        for task in waiting:
            task.cancel()


def _plan(service: Rendered, settings: Settings, folder: Path) -> ServicePlan:
    machine = Machine(
        folder=folder,
        claims=settings.claims,
        environment=settings.environment,
        python=sys.executable,
        free_port=_free_port,
        objects=service.objects,
    )
    children, name = service.children, service.service.metadata.name
    pods = _pods(children, machine)
    routes = ingress_routes(routes_of(service.resolved), children, pods)
    if not routes or not service.resolved.hosts.service:
        raise UnusableInput(f"InferenceService {name} {_unreachable(service)}")
    # The first host is that of the default template, unless it belongs to another service.
    return ServicePlan(
        Endpoint(name, routes[0].host, settings.http_port, grpc_port(children, pods)), tuple(pods), routes
    )


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


def _pods(children: Sequence[Manifest], machine: Machine) -> list[Pod]:
    """Plan each pod with its own folder, in order: the later ones call the earlier ones."""
    pods: list[Pod] = []
    for deployment in (child for child in children if child["kind"] == "Deployment"):
        here = replace(machine, folder=machine.folder / str(len(pods)), addresses=addresses_of(children, pods))
        pods.append(plan_pod(deployment, here))
    return pods


async def _prepare(pod: Pod, group: Group) -> None:
    for folder in pod.folders:
        folder.mkdir(parents=True, exist_ok=True)
    for file, content in pod.files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    for link, target in pod.links.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target.resolve(), target_is_directory=True)
    for process in pod.init:
        running = await group.start(process)
        if await running.exited != 0:
            raise running.failure()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        port: int = listener.getsockname()[1]
        return port
