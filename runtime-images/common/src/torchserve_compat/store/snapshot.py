"""Completes a `model_snapshot` with the fields that TorchServe 0.12 requires. Pure.

TorchServe writes snapshots itself and does not check them: without `modelCount` it loads nothing, and a missing
parameter ends it with a NullPointerException.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from model_archive.configuration import Table
from torchserve_compat.store.models import entries, snapshot_models
from torchserve_compat.store.versions import is_default, numbers

# TorchServe's defaults.
_DEFAULTS = {"minWorkers": 1, "batchSize": 1, "maxBatchDelay": 100}


def complete(snapshot: dict[str, Any]) -> Iterator[str]:
    """Add missing fields in place; yield the reason for each step."""
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
    """Make the highest version the default, unless the snapshot sets `defaultVersion` for each version."""
    for name, versions in models.items():
        if all("defaultVersion" in parameters for parameters in versions.values()):
            continue
        named = [version for version, parameters in versions.items() if is_default(parameters)]
        chosen = max(named or versions, key=numbers)
        for version, parameters in versions.items():
            parameters["defaultVersion"] = version == chosen
        yield name, chosen
