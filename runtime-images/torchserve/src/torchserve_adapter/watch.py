"""Watches which models are ready, and which versions they have, by asking TorchServe.

A running process does not mean that a model is ready, and a TorchServe that is too busy to respond has not lost a
worker.

A worker that dies before its model was ever ready ends the pod: the archive is faulty, and TorchServe's retries would
only hide that. Later, TorchServe restarts the worker; until then, the model is not ready and its requests wait. Five
deaths in a row without a response in between end the pod, and so does a worker that TorchServe no longer restarts.

A model that was registered at run time does not end the pod: it goes out of service alone, until it is unregistered.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass

from data_plane.health import State
from data_plane.model import Models
from data_plane.model_server.errors import ModelFailed
from torchserve_adapter.client import TorchServeClient, TorchServeVersion
from torchserve_adapter.failure_reports import FailureReports, named
from torchserve_adapter.limits import MAX_DEATHS, MAX_WITHOUT_WORKER
from torchserve_adapter.process import TorchServe
from torchserve_adapter.served import ServedVersions
from torchserve_compat.store.models import RequestedModel

log = logging.getLogger(__name__)

_STARTING_POLL_S = 0.1
_READY_POLL_S = 5.0


@dataclass
class _Watched:
    """A model from the configuration, or one that was registered at run time."""

    configured: RequestedModel | None = None  # None: registered at run time
    was_ready: bool = False
    lost_at: float | None = None  # when it lost its last worker


class ModelWatch:
    """Keeps the health of `models` up to date; raises ModelFailed when a model cannot recover."""

    def __init__(
        self,
        configured: Iterable[RequestedModel],
        models: Models,
        *,
        served: ServedVersions,
        client: TorchServeClient,
        torchserve: TorchServe,
        reports: FailureReports,
        registering: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._models = models
        self._served = served
        self._client = client
        self._torchserve = torchserve
        self._reports = reports
        self._registering = registering  # whether models can be registered at run time
        self._clock = clock
        self._watched = {model.name: _Watched(model) for model in configured}
        self._checking = asyncio.Lock()

    async def run(self) -> None:
        """Watch for ever; raises ModelFailed."""
        while True:
            self._torchserve.deaths.news.clear()  # first, so that a death during the check is checked next
            await self.check()
            await self._pause()

    async def check(self) -> None:
        """Check all models once; raises ModelFailed."""
        async with self._checking:
            for name in await self._names():
                self._judge(name, await self._client.describe(name))

    def has_given_up(self, name: str) -> bool:
        """Return whether the model was registered at run time, failed, and must be registered again."""
        health = self._models.health(name)
        return name in self._watched and health is not None and health.state is State.FAILED

    @contextlib.asynccontextmanager
    async def retiring(self, name: str) -> AsyncIterator[None]:
        """Drain the model and stop new requests; the caller unregisters it within the block."""
        own = self._models.resolve(name)
        async with self._checking:
            self._models.remove(own)
            await self._served.drained(own)
            yield

    async def _names(self) -> list[str]:
        names = dict.fromkeys((*self._watched, *self._models.names))
        if self._registering:
            names |= dict.fromkeys(await self._client.names() or ())
        return list(names)

    def _judge(self, name: str, versions: tuple[TorchServeVersion, ...] | None) -> None:
        watched = self._watched.get(name)
        if watched and watched.configured:
            judge = self._judge_running if watched.was_ready else self._judge_start
            judge(watched.configured, versions)
        elif versions:
            self._judge_registered(RequestedModel(name, versions[0].archive), versions)
        elif versions is not None:
            self._forget(name)

    def _judge_registered(self, model: RequestedModel, versions: tuple[TorchServeVersion, ...]) -> None:
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

    def _check_start(self, model: RequestedModel, versions: Sequence[TorchServeVersion]) -> None:
        died = any(self._torchserve.deaths.count(model.name, one.version) for one in versions)
        if died or self._reports.has(model.name):
            raise ModelFailed(self._reports.describe_load_failure(model, self._late(model, versions)))

    def _judge_start(self, model: RequestedModel, versions: tuple[TorchServeVersion, ...] | None) -> None:
        self._check_start(model, versions or ())
        if versions and all(one.workers for one in versions):
            self._serve(model.name, versions)
        # TorchServe does not know the model, or gave up before it started a worker.
        elif versions is not None and not (versions and all(one.max_workers for one in versions)):
            raise ModelFailed(
                f"TorchServe could not load model {model.name} ({model.archive}). {self._torchserve.last_problems()}"
            )

    def _judge_running(self, model: RequestedModel, described: tuple[TorchServeVersion, ...] | None) -> None:
        if described is None:
            return
        # A version that is still being registered does not make the model unready.
        versions = [one for one in described if one.workers or self._served.has(model.name, one.version)]
        self._check_deaths(model, versions)
        if versions and all(one.workers for one in versions):
            self._serve(model.name, versions)
        elif not described and self._registering:
            self._forget(model.name)
        elif self._watched[model.name].was_ready:
            self._lose(model, versions)

    def _check_deaths(self, model: RequestedModel, versions: Sequence[TorchServeVersion]) -> None:
        if any(one.sequences and self._torchserve.deaths.has_lost(model.name, one.version) for one in versions):
            raise ModelFailed(
                f"A worker of model {named(model)} died, and TorchServe does not serve sequences (sequenceBatching) "
                f"again after that; {self._reports.describe_last_death(model, self._late(model, versions))}"
            )
        deaths = max((self._torchserve.deaths.count(model.name, one.version) for one in versions), default=0)
        if deaths >= MAX_DEATHS:
            raise ModelFailed(
                f"The worker of model {named(model)} died {deaths} times in a row; "
                f"{self._reports.describe_last_death(model, self._late(model, versions))}"
            )

    def _late(self, model: RequestedModel, versions: Sequence[TorchServeVersion]) -> TorchServeVersion | None:
        """Return the version whose worker TorchServe ended last because it did not respond in time, if any."""
        return next((one for one in versions if self._torchserve.deaths.was_late(model.name, one.version)), None)

    def _check_recovery(self, model: RequestedModel, versions: Sequence[TorchServeVersion]) -> None:
        watched, now = self._watched[model.name], self._clock()
        watched.lost_at = now if watched.lost_at is None else watched.lost_at
        without_worker_s = now - watched.lost_at
        if without_worker_s > MAX_WITHOUT_WORKER + max((one.startup_timeout_s for one in versions), default=0):
            raise ModelFailed(
                f"Model {named(model)} has had no worker for {without_worker_s:.0f} s, and TorchServe no longer "
                f"restarts it; {self._reports.describe_last_death(model, self._late(model, versions))}"
            )

    def _serve(self, name: str, versions: Sequence[TorchServeVersion]) -> None:
        self._served.update(name, versions)
        watched = self._watched[name]
        watched.was_ready, watched.lost_at = True, None
        if self._models.record(name, State.READY):
            log.info("model %s is ready", name)
            # A later report is of a worker that has died since TorchServe was asked, a death that is yet to be counted.
            self._reports.clear(name, max(self._torchserve.deaths.counted_at(name, one.version) for one in versions))

    def _forget(self, name: str) -> None:
        watched = self._watched.pop(name, None)
        if watched and (watched.was_ready or self._models.health(name)):
            log.info("model %s was unregistered", name)
            self._models.remove(name)

    def _forget_earlier(self, name: str, versions: Sequence[TorchServeVersion]) -> None:
        """Forget an earlier model of this name, and how its workers ended."""
        self._models.remove(name)
        for one in versions:
            self._torchserve.deaths.forget(name, one.version)
        self._reports.clear(name)

    def _lose(self, model: RequestedModel, versions: Sequence[TorchServeVersion]) -> None:
        if self._models.record(model.name, State.RECOVERING, "lost its worker; TorchServe is restarting it"):
            log.warning("model %s lost its worker; TorchServe is restarting it", model.name)
        self._served.scale(model.name, versions)
        self._check_recovery(model, versions)

    def _give_up(self, model: RequestedModel, error: ModelFailed) -> None:
        log.error("model %s is given up: %s", model.name, error)
        reason = f"is given up until it is registered anew. {str(error).rstrip('.')}"
        self._models.record(model.name, State.FAILED, reason)
        self._served.refuse_waiting(model.name)

    async def _pause(self) -> None:
        """Wait for a worker's death, or for the next poll, which comes sooner while a model is not ready."""
        pause = _READY_POLL_S if self._models.ready else _STARTING_POLL_S
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):  # `wait_for` of Python 3.11 may lose the cancellation that ends it
                await self._torchserve.deaths.news.wait()
