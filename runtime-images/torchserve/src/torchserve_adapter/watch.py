"""Which models can answer, and which versions they have. TorchServe is asked; nothing is concluded from a process being
alive.

Before a model of the configuration was ever ready, a worker that dies ends the pod: the archive is wrong, and
TorchServe's own retries would only hide it. Afterwards TorchServe restarts the worker, and the model is not ready until
it has. Five deaths end the pod: within ten minutes, or without the model being ready in between.

A model that is registered while TorchServe runs never ends the pod.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path

from torchserve_adapter.client import TorchServeClient, Version
from torchserve_adapter.process import TorchServe
from torchserve_adapter.served import ServedVersions
from transformer_sdk.model import Models
from transformer_sdk.model_store.errors import ModelFailed
from transformer_sdk.model_store.models import Model

log = logging.getLogger(__name__)

_STARTING_POLL_S = 0.1
_READY_POLL_S = 5.0
_MAX_DEATHS = 5

RESTARTING = "lost its worker; TorchServe is restarting it"


class ModelWatch:
    """Keeps `models` true; raises ModelFailed when waiting longer would be pointless."""

    def __init__(
        self,
        configured: Iterable[Model],
        models: Models,
        served: ServedVersions,
        client: TorchServeClient,
        torchserve: TorchServe,
        failures: Path,
        *,
        registering: bool,
    ) -> None:
        self._configured = {model.name: model for model in configured}
        self._models = models
        self._served = served
        self._client = client
        self._torchserve = torchserve
        self._failures = failures
        self._registering = registering  # models may come and go
        self._were_ready: set[str] = set()
        self._looking = asyncio.Lock()

    async def run(self) -> None:
        """Watches for ever; raises ModelFailed."""
        while True:
            await self.look()
            await self._pause()

    async def look(self) -> None:
        """Once; raises ModelFailed."""
        async with self._looking:
            for name in await self._names():
                self._judge(name, await self._client.describe(name))

    @contextlib.asynccontextmanager
    async def retiring(self, name: str) -> AsyncIterator[None]:
        """The model takes no new requests and has finished those that it had; within, it is unregistered."""
        own = self._models.resolve(name)
        async with self._looking:
            self._models.remove(own)
            await self._served.drained(own)
            yield

    async def _names(self) -> list[str]:
        names = dict.fromkeys((*self._configured, *self._models.names))
        if self._registering:
            names |= dict.fromkeys(await self._client.names() or ())
        return list(names)

    def _judge(self, name: str, versions: tuple[Version, ...] | None) -> None:
        starting = name in self._configured and name not in self._were_ready
        if versions and not starting:
            # A version that is being registered is not waited for.
            versions = tuple(one for one in versions if one.workers or self._served.has(name, one.version))
        if versions and all(version.workers for version in versions):
            self._served.update(name, versions, configured=starting)
            self._torchserve.deaths.forgive(name)
            self._were_ready.add(name)
            if name in self._models.reasons:
                log.info("model %s is ready", name)
            self._models.mark_ready(name)
        elif starting:
            self._judge_start(self._configured[name], versions)
        elif name in self._were_ready:
            self._judge_loss(name, versions)

    def _judge_start(self, model: Model, versions: tuple[Version, ...] | None) -> None:
        if self._torchserve.deaths.count(model.name) or self._report(model.name).exists():
            raise ModelFailed(self._describe_failure(model))
        # TorchServe does not know it, or gave up on it before any worker was started.
        if versions is not None and not (versions and all(version.max_workers for version in versions)):
            raise ModelFailed(
                f"TorchServe could not load model {model.name} ({model.archive}). {self._torchserve.last_problems()}"
            )

    def _judge_loss(self, name: str, versions: tuple[Version, ...] | None) -> None:
        deaths = self._torchserve.deaths.count(name)
        if versions == () and self._registering:
            log.info("model %s was unregistered", name)
            self._models.remove(name)
            self._configured.pop(name, None)
            self._were_ready.discard(name)
        elif deaths >= _MAX_DEATHS and name in self._configured:
            raise ModelFailed(f"The worker died {deaths} times: {self._describe_failure(self._configured[name])}")
        else:
            if self._models.reasons.get(name) != RESTARTING:
                log.warning("model %s %s", name, RESTARTING)
            self._models.mark_unready(name, RESTARTING)

    def _report(self, name: str) -> Path:
        return self._failures / f"{name}.json"

    def _describe_failure(self, model: Model) -> str:
        try:
            report = json.loads(self._report(model.name).read_text())
        except FileNotFoundError:
            return (
                f"The worker of model {model.name} ({model.archive}) died without a Python exception; if it was killed "
                f"for memory, raise the container's memory limit. {self._torchserve.last_problems()}"
            )
        return describe_failure(model, report)

    async def _pause(self) -> None:
        """Short while anything is missing; else until a worker dies."""
        self._torchserve.deaths.news.clear()
        pause = _READY_POLL_S if not self._models.reasons else _STARTING_POLL_S
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._torchserve.deaths.news.wait(), pause)


def describe_failure(model: Model, report: Mapping[str, str | None]) -> str:
    """One line: the model, the exception, the place in the user's code, what to do."""
    if module := report["missing_module"]:
        cure = f"Add {module} to the archive's requirements.txt with install_py_dep_per_model=true, or to the image."
    else:
        cure = "Correct the handler or the archive and upload it again."
    return (
        f"Model {model.name} ({model.archive}) could not be loaded: "
        f"{report['type']}: {report['message']} (at {report['where']}). {cure}"
    )
