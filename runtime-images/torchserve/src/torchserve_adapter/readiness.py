"""Which models can answer. TorchServe is asked; nothing is concluded from a process being alive.

Before a model was ever ready, a worker that dies ends the pod: the archive is wrong, and TorchServe's own retries would
only hide it. Afterwards TorchServe restarts the worker, and the model is not ready until it has. Five deaths end the
pod: within ten minutes, or without the model being ready in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torchserve_adapter.client import TorchServeClient
from torchserve_adapter.process import TorchServe
from transformer_sdk.errors import NotReady
from transformer_sdk.model_store.errors import ModelFailed
from transformer_sdk.model_store.models import Model

log = logging.getLogger(__name__)

_STARTING_POLL_S = 0.1
_READY_POLL_S = 5.0
_MAX_DEATHS = 5

LOADING = "is loading"
RESTARTING = "lost its worker; TorchServe is restarting it"


class Readiness:
    """What the endpoints know: for each model why it is not ready, or that it is."""

    def __init__(self, models: Iterable[str]) -> None:
        self._missing = dict.fromkeys(models, LOADING)
        self.draining = False

    @property
    def reasons(self) -> Mapping[str, str]:
        """By model, for those that cannot answer."""
        return self._missing

    @property
    def ready(self) -> bool:
        """Whether new requests are welcome: every model can answer, and the end is not near."""
        return not self._missing and not self.draining

    def is_ready(self, model: str) -> bool:
        """Whether this model can answer."""
        return model not in self._missing

    def require(self, model: str) -> None:
        """Raises NotReady, with the reason, where the model cannot answer."""
        if reason := self._missing.get(model):
            raise NotReady(f"Model with name {model} is not ready: it {reason}.")

    def mark_ready(self, model: str) -> None:
        """The model can answer from now on."""
        if self._missing.pop(model, None):
            log.info("model %s is ready", model)

    def mark_missing(self, model: str, reason: str) -> None:
        """The model cannot answer, for this reason."""
        if self._missing.get(model) != reason:
            log.warning("model %s %s", model, reason)
        self._missing[model] = reason


class ModelWatch:
    """Keeps a Readiness true; raises ModelFailed when waiting longer would be pointless."""

    def __init__(
        self,
        models: Iterable[Model],
        readiness: Readiness,
        client: TorchServeClient,
        torchserve: TorchServe,
        failures: Path,
    ) -> None:
        self._models = tuple(models)
        self._readiness = readiness
        self._client = client
        self._torchserve = torchserve
        self._failures = failures
        self._were_ready: set[str] = set()

    async def run(self) -> None:
        """Watches for ever; raises ModelFailed."""
        while True:
            for model in self._models:
                self._judge(model, await self._client.describe(model.name))
            await self._pause()

    def _judge(self, model: Model, versions: list[dict[str, Any]] | None) -> None:
        name = model.name
        deaths = self._torchserve.deaths
        if versions and all(map(_has_ready_worker, versions)):
            deaths.forgive(name)
            self._were_ready.add(name)
            self._readiness.mark_ready(name)
        elif name not in self._were_ready:
            if deaths.count(name) or (self._failures / f"{name}.json").exists():
                raise ModelFailed(self._describe_failure(model))
            if versions is not None and not all(map(_may_have_workers, versions or [{}])):
                raise ModelFailed(
                    f"TorchServe could not load model {name} ({model.archive}). {self._torchserve.last_problems()}"
                )
        elif deaths.count(name) >= _MAX_DEATHS:
            raise ModelFailed(f"The worker died {deaths.count(name)} times: {self._describe_failure(model)}")
        else:
            self._readiness.mark_missing(name, RESTARTING)

    def _describe_failure(self, model: Model) -> str:
        try:
            report = json.loads((self._failures / f"{model.name}.json").read_text())
        except FileNotFoundError:
            return (
                f"The worker of model {model.name} ({model.archive}) died without a Python exception; if it was killed "
                f"for memory, raise the container's memory limit. {self._torchserve.last_problems()}"
            )
        return describe_failure(model, report)

    async def _pause(self) -> None:
        """Short while anything is missing; else until a worker dies."""
        self._torchserve.deaths.news.clear()
        pause = _READY_POLL_S if not self._readiness.reasons else _STARTING_POLL_S
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


def _may_have_workers(version: Mapping[str, Any]) -> bool:
    """False for a model that TorchServe registered and then gave up on, before any worker was started."""
    return int(version.get("maxWorkers", 0)) > 0


def _has_ready_worker(version: Mapping[str, Any]) -> bool:
    return any(worker["status"] == "READY" for worker in version["workers"])
