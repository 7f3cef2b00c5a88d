"""Runs a pod as processes of this machine, by the kubelet's rules: init containers, probes, restarts."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import aiohttp

from isvc.run.clock import now
from isvc.run.container import Probe, Process
from isvc.run.errors import RunFailed
from isvc.run.excerpt import Excerpt
from isvc.run.log import Log
from isvc.run.pod import PodPlan
from isvc.run.probes import check_of, wait_until_bad, wait_until_good
from isvc.run.processes import Group, Running, together
from isvc.run.states import ContainerStatus, pod_status, statuses_of
from isvc_operator.api.names import CONTAINER_INITIALIZER
from isvc_operator.limits import LOG_BYTES
from isvc_operator.manifests import Manifest, name_of
from isvc_operator.text import last_of, one_line

# Kubernetes' numbers, in seconds.
_FIRST_BACK_OFF, _LONGEST_BACK_OFF = 10.0, 300.0
_FORGOTTEN = 2 * _LONGEST_BACK_OFF  # after such a time of running, the next failure counts as the first
_FALLBACK_LINES, _FALLBACK_BYTES = 80, 2048  # of a log that stands for a termination message
_START_ERROR = 128  # the exit code of a container whose program cannot be started


@dataclass
class PodListener:
    """Who is told of a pod: that its status has changed, what has happened to it, and that a container has failed."""

    changed: Callable[[], None]
    event: Callable[[Manifest, str, str, str], None]
    failed: Callable[[RunFailed], None]


@dataclass
class LocalPod:
    """A pod on this machine; ``manifest`` is the object with its status.

    ``planned`` returns its plan, with other ports each time.
    """

    manifest: Manifest
    planned: Callable[[], PodPlan]
    group: Group
    session: aiohttp.ClientSession
    listener: PodListener

    def __post_init__(self) -> None:
        self.plan = self.planned()
        spec = self.manifest["spec"]
        self._init, self._servers = statuses_of(spec.get("initContainers", ())), statuses_of(spec["containers"])
        self._containers = {**self._init, **self._servers}
        self._excerpts = {
            process.container: Excerpt(
                process.name, self.group.output, is_initializer=process.container == CONTAINER_INITIALIZER
            )
            for process in (*self.plan.init, *self.plan.servers)
        }
        self._write_status()
        self._task = asyncio.create_task(self._run())

    @property
    def name(self) -> str:
        """The name of the pod."""
        return name_of(self.manifest)

    @property
    def is_ready(self) -> bool:
        """Whether it gets requests."""
        return all(item.ready for item in self._servers.values()) and not self.is_ending

    def runs(self) -> bool:
        """Whether the processes of all servers run."""
        return all(item.running and item.running.is_alive for item in self._servers.values())

    @property
    def has_failed(self) -> bool:
        """Whether a server of it has ended before, or an init container has failed."""
        return any(item.exit_code for item in self._init.values()) or any(
            item.exit_code is not None for item in self._servers.values()
        )

    @property
    def is_ending(self) -> bool:
        """Whether it is being deleted."""
        return bool(self.manifest["metadata"].get("deletionTimestamp"))

    def log(self, container: str, *, previous: bool = False) -> Log:
        """Return the log of a container; that of one that does not run is the previous one, too."""
        status = self._containers[container]
        return status.previous_log if previous and status.running else status.log

    def containers(self) -> list[str]:
        """Return the names of its containers, in the order of their start."""
        return list(self._containers)

    def mark_ending(self) -> None:
        """Take it out of the endpoints: requests go to other pods from now on."""
        self.manifest = {**self.manifest, "metadata": {**self.manifest["metadata"], "deletionTimestamp": now()}}
        self.listener.changed()

    async def end(self) -> None:
        """Stop its processes, each with the time that the pod gives it, and remove its folder."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        running = {name: item.running for name, item in self._containers.items() if item.running}
        for name in running:
            self.listener.event(self.manifest, "Normal", "Killing", f"Stopping container {name}")
        grace = self.group.grace(self.plan.grace)
        await together(*(process.stop(grace) for process in running.values()))
        await asyncio.to_thread(shutil.rmtree, self.plan.folder, ignore_errors=True)

    async def _run(self) -> None:
        try:
            self._prepare()
        except OSError as error:
            self.listener.failed(RunFailed(f"the folders of pod {self.name} cannot be made: {error}"))
            return
        try:
            for process in self.plan.init:
                await self._keep(process, until_success=True)
            async with asyncio.TaskGroup() as servers:
                for process in self.plan.servers:
                    servers.create_task(self._keep(process, until_success=False))
        except Exception as error:  # noqa: BLE001 - a pod that is not run any more must not be so without a word
            self.listener.failed(RunFailed(f"pod {self.name} is not run any more: {error!r}"))

    def _prepare(self) -> None:
        for folder in self.plan.folders:
            folder.mkdir(parents=True, exist_ok=True)
        for file, content in self.plan.files.items():
            if ".." in file.parts or not file.is_relative_to(self.plan.folder):
                raise OSError(f"{file} is outside of {self.plan.folder}")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        for link, target in self.plan.links.items():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target.resolve(), target_is_directory=True)

    async def _keep(self, process: Process, *, until_success: bool) -> None:
        """Run a container again and again, until it has succeeded or for ever."""
        back_off, clock = 0.0, asyncio.get_running_loop().time
        container, excerpt = self._containers[process.container], self._excerpts[process.container]
        while True:
            began = clock()
            failure = await self._once(process, container, excerpt)
            if until_success and container.has_succeeded:
                return
            if clock() - began > _FORGOTTEN:
                back_off = 0.0
            self.listener.failed(excerpt.failed(failure, back_off))
            if back_off:
                what = f"back-off {back_off:g}s restarting failed container={process.container} pod={self.name}"
                container.wait("CrashLoopBackOff", what)
                self._write_status()
                self.listener.event(self.manifest, "Warning", "BackOff", what)
            await asyncio.sleep(back_off)
            process = self._with_new_ports(process)
            back_off = min(max(_FIRST_BACK_OFF, 2 * back_off), _LONGEST_BACK_OFF)

    def _with_new_ports(self, process: Process) -> Process:
        """Return a server that is started again: another process may have taken its ports.

        The servers of one pod know each other's ports, so they keep theirs.
        """
        if self.plan.servers != (process,):
            return process
        self.plan = self.planned()
        return self.plan.servers[0]

    async def _once(self, process: Process, container: ContainerStatus, excerpt: Excerpt) -> RunFailed:
        """Run a container once; return why it is not running any more."""
        container.run(now())
        try:
            running = await self.group.start(process, excerpt.line)
        except RunFailed as error:
            container.end(_START_ERROR, "StartError", str(error), at=now())
            self._write_status()
            return error
        container.log, container.running = running.log, running
        self._write_status()
        self.listener.event(self.manifest, "Normal", "Started", f"Started container {container.name}")
        probing = asyncio.create_task(self._probe(process, running))
        try:
            await running.child.wait()
        finally:
            probing.cancel()
        if container.ready:
            self._set_ready(process, ready=False)  # at once: its port is anybody's now, while its output is still read
        await asyncio.shield(running.exited)
        container.running = None
        code = running.exit_code
        if not code:
            excerpt.ended_well(running.message())
        message = running.message() or (_last_lines(running.log) if code else "")
        container.end(code, "Error" if code else "Completed", message, at=now(), process=running.child.pid)
        self._write_status()
        return running.failure()

    async def _probe(self, process: Process, running: Running) -> None:
        """Probe a container while it runs; it is stopped if it has not started in time, or does not live."""
        if process in self.plan.init:
            return
        try:
            if process.startup and not await self._has_started(process, process.startup):
                await self._stop(process, running, "Startup", process.startup, "it has not started in time")
                return
            self._containers[process.container].started = True
            self._write_status()
            async with asyncio.TaskGroup() as probes:
                probes.create_task(self._watch_readiness(process))
                if process.liveness:
                    probes.create_task(self._watch_liveness(process, process.liveness, running))
        except Exception as error:  # noqa: BLE001 - a probe must not end the run without a word
            self.listener.failed(RunFailed(f"{process.name} cannot be probed: {error!r}"))

    async def _has_started(self, process: Process, probe: Probe) -> bool:
        check = check_of(probe, process, self.group, self.session)
        try:
            async with asyncio.timeout(probe.initial_delay + probe.failures * probe.period):
                await wait_until_good(probe, check, partial(self._not_ready, process))
        except TimeoutError:
            return False
        return True

    async def _watch_readiness(self, process: Process) -> None:
        probe = process.readiness
        check = check_of(probe, process, self.group, self.session) if probe else None
        while True:
            if probe and check:
                await wait_until_good(probe, check, partial(self._not_ready, process))
            self._excerpts[process.container].ready()
            self.group.output.note(f"{process.name} is ready")  # before what follows from it is told
            self._set_ready(process, ready=True)
            if not probe or not check:
                return
            reason = await wait_until_bad(probe, check)
            self._set_ready(process, ready=False)
            self.group.output.say(f"{process.name} is not ready: {reason}")
            self.listener.event(self.manifest, "Warning", "Unhealthy", f"Readiness probe failed: {one_line(reason)}")

    async def _watch_liveness(self, process: Process, probe: Probe, running: Running) -> None:
        await asyncio.sleep(probe.initial_delay)
        reason = await wait_until_bad(probe, check_of(probe, process, self.group, self.session))
        await self._stop(process, running, "Liveness", probe, reason)

    async def _stop(self, process: Process, running: Running, which: str, probe: Probe, reason: str) -> None:
        why = f"{which} probe failed {probe.failures} times: {one_line(reason)}"
        self.listener.event(self.manifest, "Warning", "Unhealthy", why)
        self.group.output.say(f"{process.name} is stopped and started again: {why}")
        await running.stop(self.plan.grace)

    def _not_ready(self, process: Process, reason: str) -> None:
        self.group.output.detail(f"{process.name} is not ready: {reason}")

    def _set_ready(self, process: Process, *, ready: bool) -> None:
        self._containers[process.container].ready = ready
        self._write_status()

    def _write_status(self) -> None:
        before = self.manifest.get("status") or {}
        status = pod_status(self._init.values(), self._servers.values(), before, now())
        self.manifest = {**self.manifest, "status": status}
        if before:
            self.listener.changed()


def _last_lines(log: Log) -> str:
    """Return what Kubernetes uses as the message of a container that has left none (FallbackToLogsOnError)."""
    return last_of("\n".join(log.last(_FALLBACK_LINES)), min(_FALLBACK_BYTES, LOG_BYTES))
