"""Which models can answer, and which versions they have. TorchServe is asked; nothing is concluded from a process being
alive, nor from TorchServe being too busy to say.

Before a model of the configuration was ever ready, a worker that dies ends the pod: the archive is wrong, and
TorchServe's own retries would only hide it. Afterwards TorchServe restarts the worker; until it has, the model is not
ready and its requests wait. Five deaths of a worker in a row, without a response between them, end the pod; so does one
that is away for so long that TorchServe has given up on it.

What would end the pod for a model of the configuration takes a model that was registered while TorchServe runs out of
service, and no other: it is given up until it is unregistered.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from data_plane.health import Event, State
from data_plane.model import Models
from data_plane.model_server.errors import ModelFailed
from torchserve_adapter.client import TorchServeClient, Version
from torchserve_adapter.limits import MAX_DEATHS, MAX_WITHOUT_WORKER
from torchserve_adapter.process import TorchServe
from torchserve_adapter.served import ServedVersions
from torchserve_compat.store.models import RequestedModel

log = logging.getLogger(__name__)

_STARTING_POLL_S = 0.1
_READY_POLL_S = 5.0


@dataclass
class _Watched:
    """A model that the configuration has, or that was registered while TorchServe runs."""

    configured: RequestedModel | None = None
    was_ready: bool = False
    lost_at: float | None = None  # since when it has been without a worker


class ModelWatch:
    """Keeps `models` true; raises ModelFailed when waiting longer would be pointless."""

    def __init__(
        self,
        configured: Iterable[RequestedModel],
        models: Models,
        served: ServedVersions,
        client: TorchServeClient,
        torchserve: TorchServe,
        failures: Path,
        *,
        registering: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._models = models
        self._served = served
        self._client = client
        self._torchserve = torchserve
        self._failures = failures
        self._registering = registering  # models may come and go
        self._clock = clock
        self._watched = {model.name: _Watched(model) for model in configured}
        self._looking = asyncio.Lock()

    async def run(self) -> None:
        """Watches for ever; raises ModelFailed."""
        while True:
            self._torchserve.deaths.news.clear()  # first: a worker that dies during the look is looked at next
            await self.look()
            await self._pause()

    async def look(self) -> None:
        """Once; raises ModelFailed."""
        async with self._looking:
            for name in await self._names():
                self._judge(name, await self._client.describe(name))

    def has_given_up(self, name: str) -> bool:
        """Whether the model was registered, and is out of service until it is registered anew."""
        health = self._models.health(name)
        return name in self._watched and health is not None and health.state is State.FAILED

    @contextlib.asynccontextmanager
    async def retiring(self, name: str) -> AsyncIterator[None]:
        """The model takes no new requests and has finished those that it had; within, it is unregistered."""
        own = self._models.resolve(name)
        async with self._looking:
            self._models.remove(own)
            await self._served.drained(own)
            yield

    async def _names(self) -> list[str]:
        names = dict.fromkeys((*self._watched, *self._models.names))
        if self._registering:
            names |= dict.fromkeys(await self._client.names() or ())
        return list(names)

    def _judge(self, name: str, versions: tuple[Version, ...] | None) -> None:
        watched = self._watched.get(name)
        if watched and watched.configured:
            judge = self._judge_running if watched.was_ready else self._judge_start
            judge(watched.configured, versions)
        elif versions:
            self._judge_registered(RequestedModel(name, versions[0].archive), versions)
        elif versions is not None:
            self._forget(name)

    def _judge_registered(self, model: RequestedModel, versions: tuple[Version, ...]) -> None:
        if model.name not in self._watched:
            self._forget_earlier(model.name, versions)
            self._watched[model.name] = _Watched()
        if self.has_given_up(model.name):
            return
        try:
            if not self._watched[model.name].was_ready:
                self._check_start(model, versions)
            self._judge_running(model, versions)
        except ModelFailed as error:
            self._give_up(model, error)

    def _check_start(self, model: RequestedModel, versions: Sequence[Version]) -> None:
        died = any(self._torchserve.deaths.count(model.name, one.version) for one in versions)
        if died or self._report(model.name).exists():
            raise ModelFailed(self._describe_failure(model))

    def _judge_start(self, model: RequestedModel, versions: tuple[Version, ...] | None) -> None:
        self._check_start(model, versions or ())
        if versions and all(one.workers for one in versions):
            self._serve(model.name, versions, configured=True)
        # TorchServe does not know it, or gave up on it before any worker was started.
        elif versions is not None and not (versions and all(one.max_workers for one in versions)):
            raise ModelFailed(
                f"TorchServe could not load model {model.name} ({model.archive}). {self._torchserve.last_problems()}"
            )

    def _judge_running(self, model: RequestedModel, described: tuple[Version, ...] | None) -> None:
        if described is None:
            return
        # A version that is being registered is not waited for.
        versions = [one for one in described if one.workers or self._served.has(model.name, one.version)]
        self._check_deaths(model, versions)
        if versions and all(one.workers for one in versions):
            self._serve(model.name, versions, configured=False)
        elif not described and self._registering:
            self._forget(model.name)
        elif self._watched[model.name].was_ready:
            self._lose(model, versions)

    def _check_deaths(self, model: RequestedModel, versions: Sequence[Version]) -> None:
        if any(one.sequences and self._torchserve.deaths.has_lost(model.name, one.version) for one in versions):
            raise ModelFailed(
                f"A worker of model {_named(model)} died, and TorchServe does not serve sequences (sequenceBatching) "
                f"again after that; {self._last(model)}"
            )
        deaths = max((self._torchserve.deaths.count(model.name, one.version) for one in versions), default=0)
        if deaths >= MAX_DEATHS:
            raise ModelFailed(f"The worker of model {_named(model)} died {deaths} times in a row; {self._last(model)}")

    def _check_patience(self, model: RequestedModel, versions: Sequence[Version]) -> None:
        watched, now = self._watched[model.name], self._clock()
        watched.lost_at = now if watched.lost_at is None else watched.lost_at
        without_worker_s = now - watched.lost_at
        if without_worker_s > MAX_WITHOUT_WORKER + max((one.startup_timeout_s for one in versions), default=0):
            raise ModelFailed(
                f"Model {_named(model)} has had no worker for {without_worker_s:.0f} s, and TorchServe tries no more; "
                f"{self._last(model)}"
            )

    def _serve(self, name: str, versions: Sequence[Version], *, configured: bool) -> None:
        self._served.update(name, versions, configured=configured)
        watched = self._watched[name]
        watched.was_ready, watched.lost_at = True, None
        if self._models.record(name, Event.READY):
            log.info("model %s is ready", name)
            self._report(name).unlink(missing_ok=True)

    def _forget(self, name: str) -> None:
        watched = self._watched.pop(name, None)
        if watched and (watched.was_ready or self._models.health(name)):
            log.info("model %s was unregistered", name)
            self._models.remove(name)

    def _forget_earlier(self, name: str, versions: Sequence[Version]) -> None:
        """Forget an earlier model of this name: how its workers ended does not count for this one."""
        self._models.remove(name)
        for one in versions:
            self._torchserve.deaths.forget(name, one.version)
        self._report(name).unlink(missing_ok=True)

    def _lose(self, model: RequestedModel, versions: Sequence[Version]) -> None:
        if self._models.record(model.name, Event.WORKERS_LOST, "lost its worker; TorchServe is restarting it"):
            log.warning("model %s lost its worker; TorchServe is restarting it", model.name)
        self._served.scale(model.name, versions)
        self._check_patience(model, versions)

    def _give_up(self, model: RequestedModel, error: ModelFailed) -> None:
        log.error("model %s is given up: %s", model.name, error)
        reason = f"is given up until it is registered anew. {str(error).rstrip('.')}"
        self._models.record(model.name, Event.FAIL, reason)
        self._served.refuse_waiting(model.name)

    def _report(self, name: str) -> Path:
        return self._failures / f"{name}.json"

    def _describe_failure(self, model: RequestedModel) -> str:
        """Why the model could not be loaded."""
        if report := self._read_report(model.name):
            return f"Model {_named(model)} could not be loaded: {_cause(report)}"
        return f"The worker of model {_named(model)} died {self._silently()}"

    def _last(self, model: RequestedModel) -> str:
        """How its worker ended the last time."""
        report = self._read_report(model.name)
        return f"the last time by {_cause(report)}" if report else f"the last time {self._silently()}"

    def _read_report(self, name: str) -> Mapping[str, str | None] | None:
        try:
            report: Mapping[str, str | None] = json.loads(self._report(name).read_text())
        except FileNotFoundError:
            return None
        return report

    def _silently(self) -> str:
        return (
            "without a Python exception; if it was killed for memory, raise the container's memory limit. "
            f"{self._torchserve.last_problems()}"
        )

    async def _pause(self) -> None:
        """Short while anything is missing; else until a worker dies."""
        pause = _READY_POLL_S if self._models.ready else _STARTING_POLL_S
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._torchserve.deaths.news.wait(), pause)


def _named(model: RequestedModel) -> str:
    return f"{model.name} ({model.archive})"


def _cause(report: Mapping[str, str | None]) -> str:
    """The exception, the place in the user's code, what to do."""
    if module := report["missing_module"]:
        cure = f"Add {module} to the archive's requirements.txt with install_py_dep_per_model=true, or to the image."
    else:
        cure = "Correct the handler or the archive and upload it again."
    return f"{report['type']}: {report['message']} (at {report['where']}). {cure}"
