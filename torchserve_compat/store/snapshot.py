"""What TorchServe 0.12 must find in a `model_snapshot` and people leave out. Pure.

It writes snapshots itself, so it trusts them: without `modelCount` it loads nothing and says little, and a parameter
that is not there ends it with a null pointer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from model_archive.configuration import Table
from torchserve_compat.store.models import entries, snapshot_models

# TorchServe's own, where it has any.
_DEFAULTS = {"minWorkers": 1, "batchSize": 1, "maxBatchDelay": 100}


def complete(snapshot: dict[str, Any]) -> Iterator[str]:
    """Fills in what is missing, in place, step by step; why each step was necessary."""
    models = snapshot_models(snapshot)
    if not snapshot.get("modelCount"):
        snapshot["modelCount"] = len(models)
        yield f"modelCount {len(models)}: without it TorchServe loads no model"
    if added := _add_parameters(models):
        yield f"{', '.join(added)} filled in: TorchServe does not start without them"
    for name, chosen in _choose_defaults(models):
        yield f"version {chosen} of model {name} is its default: TorchServe does not start without one"


def _add_parameters(models: Table) -> list[str]:
    added: dict[str, None] = {}
    for _, _, parameters in entries("model_snapshot", models):
        workers = parameters.get("minWorkers", _DEFAULTS["minWorkers"])
        for name, value in {**_DEFAULTS, "maxWorkers": workers}.items():
            if name not in parameters:
                parameters[name] = value
                added[name] = None
    return list(added)


def _choose_defaults(models: Table) -> Iterator[tuple[str, str]]:
    """The highest version, where the snapshot does not say for each whether it is the default."""
    for name, versions in models.items():
        if all("defaultVersion" in parameters for parameters in versions.values()):
            continue
        named = [version for version, parameters in versions.items() if parameters.get("defaultVersion")]
        chosen = max(named or versions, key=_numbers)
        for version, parameters in versions.items():
            parameters["defaultVersion"] = version == chosen
        yield name, chosen


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
