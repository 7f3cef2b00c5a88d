"""Why a model's worker failed: the reports that our worker writes inside TorchServe, as messages for users."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torchserve_adapter.client import TorchServeVersion
from torchserve_compat.server.errors import MORE_MEMORY, cause_of, describe_late_start
from torchserve_compat.store.models import RequestedModel


@dataclass(frozen=True)
class FailureReports:
    """The reports in `folder`, one file for each model. `last_problems` returns the end of TorchServe's log.

    `installs`: whether TorchServe installs the models' requirements.
    """

    folder: Path
    last_problems: Callable[[], str]
    installs: bool

    def has(self, model: str) -> bool:
        """Return whether there is a report on the model."""
        return self._file(model).exists()

    def clear(self, model: str, before: float = math.inf) -> None:
        """Delete the report on the model, if it was written `before` this time, in seconds since the epoch."""
        with contextlib.suppress(FileNotFoundError):
            if self._file(model).stat().st_mtime < before:
                self._file(model).unlink()

    def describe_load_failure(self, model: RequestedModel, late: TorchServeVersion | None) -> str:
        """Return why the model could not be loaded; `late` is the version that did not load in time, if that is it."""
        if report := self._read(model.name):
            return f"Model {named(model)} could not be loaded: {cause_of(report, installs=self.installs)}"
        if late:
            return describe_late_start(model.name, model.archive, late.startup_timeout_s)
        return f"The worker of model {named(model)} died {self._without_exception()}"

    def describe_last_death(self, model: RequestedModel, late: TorchServeVersion | None) -> str:
        """Return how the model's worker last died, to follow another clause."""
        if report := self._read(model.name):
            return f"the last time by {cause_of(report, installs=self.installs)}"
        if late:
            return (
                f"the last time because it did not respond within {late.response_timeout_s:g} s (responseTimeout), or "
                f"did not load within {late.startup_timeout_s:g} s (startupTimeout); raise them, or let the handler do "
                "less"
            )
        return f"the last time {self._without_exception()}"

    def _file(self, model: str) -> Path:
        return self.folder / f"{model}.json"

    def _read(self, model: str) -> Mapping[str, str | None] | None:
        try:
            report: Mapping[str, str | None] = json.loads(self._file(model).read_text())
        except FileNotFoundError:
            return None
        return report

    def _without_exception(self) -> str:
        return f"without a Python exception; if it was killed for memory, {MORE_MEMORY}. {self.last_problems()}"


def named(model: RequestedModel) -> str:
    """Return the model's name with its archives, for messages."""
    return f"{model.name} ({model.archive})"
