"""What is changed in the user's configuration so that TorchServe runs well inside a pod. Pure.

Each rule is a function on the draft; `effective` runs them in order. Whatever no rule names stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from transformer_sdk.model_store import rules
from transformer_sdk.model_store.errors import ConfigurationError
from transformer_sdk.model_store.models import Table, entries, parse_table, snapshot_models
from transformer_sdk.model_store.properties import Draft
from transformer_sdk.model_store.snapshot import complete

LOOPBACK = "127.0.0.1"
_MIB = 1024 * 1024

# TorchServe's defaults.
_HTTP_PORTS = {"inference_address": 8080, "management_address": 8081, "metrics_address": 8082}
_GRPC_PORTS = {"inference": 7070, "management": 7071}

# The frontend only passes bytes: a quick start is worth more than the last per cent of its code.
_JVM_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True)
class Surroundings(rules.Surroundings):
    """The same, and what matters to a JVM with ports of its own."""

    port_for: Callable[[int], int] = int  # the wanted port if it can be had, else a free one
    memory_bytes: int | None = None


def effective(properties: Mapping[str, str], around: Surroundings) -> Draft:
    """The configuration that TorchServe gets, with every change; raises ConfigurationError."""
    return rules.effective(properties, around, _RULES)


def _addresses(draft: Draft, around: Surroundings) -> None:
    for setting, default in _HTTP_PORTS.items():
        wanted = _port_of(setting, draft.get(setting), default)
        port = around.port_for(wanted)
        moved = "" if port == wanted else f"; port {wanted} is taken"
        draft.set(setting, f"http://{LOOPBACK}:{port}", f"the adapter is the pod's only door{moved}")
    for api, default in _GRPC_PORTS.items():
        wanted = _port_of(f"grpc_{api}_port", f":{draft.get(f'grpc_{api}_port', str(default))}", default)
        draft.set(f"grpc_{api}_address", LOOPBACK, "the adapter is the pod's only door")
        if (port := around.port_for(wanted)) != wanted:
            draft.set(f"grpc_{api}_port", str(port), f"port {wanted} is taken")


def _models(draft: Draft, _: Surroundings) -> None:
    if draft.get("model_snapshot"):
        snapshot = parse_table("model_snapshot", draft.get("model_snapshot"))
        _give_a_worker(draft, "model_snapshot", snapshot, snapshot_models(snapshot))
        for why in complete(snapshot):
            draft.set("model_snapshot", json.dumps(snapshot), why)
        return
    draft.properties.pop("model_snapshot", None)
    table = parse_table("models", draft.get("models", "{}"))
    if table:
        _give_a_worker(draft, "models", table, table)
        named = ",".join(f"{name}={parameters['marName']}" for name, _, parameters in entries("models", table))
        draft.set_default("load_models", named, "the archives named in models")
    draft.set_default("load_models", "all", "no model is named: every archive in the model store is loaded")


def _give_a_worker(draft: Draft, setting: str, document: dict[str, Any], table: Table) -> None:
    """A model without a worker can never answer, and nobody outside the pod could give it one."""
    idle = [parameters for _, _, parameters in entries(setting, table) if parameters.get("minWorkers") == 0]
    for parameters in idle:
        parameters["minWorkers"] = 1
        parameters["maxWorkers"] = max(1, parameters.get("maxWorkers", 1))
    if idle:
        draft.set(setting, json.dumps(document), "minWorkers 0 → 1: a model without a worker cannot answer")


def _protocol(draft: Draft, _: Surroundings) -> None:
    draft.set_default("service_envelope", "kserve", 'so that {"instances": […]} reaches the handler as its list')
    draft.set(
        "disable_token_authorization", "true", "tokens would lock out the adapter; TorchServe is on loopback only"
    )


def _metrics(draft: Draft, _: Surroundings) -> None:
    draft.set("enable_metrics_api", "true", "the adapter's /metrics includes TorchServe's")
    draft.set("metrics_mode", "prometheus", "the adapter's /metrics includes TorchServe's")
    draft.set_default(
        "disable_system_metrics", "true", "the node's figures are not the pod's; set it to false to have them"
    )


def _jvm(draft: Draft, around: Surroundings) -> None:
    if around.memory_bytes is None:
        draft.set_default("vmargs", _JVM_FLAGS, "a quick start")
        return
    heap = min(max(around.memory_bytes // 8 // _MIB, 128), 1024)
    draft.set_default(
        "vmargs",
        f"-Xmx{heap}m {_JVM_FLAGS}",
        "an eighth of the container's memory, the workers need the rest; a quick start",
    )


def _port_of(setting: str, address: str, default: int) -> int:
    if not address:
        return default
    try:
        return urlsplit(address if "//" in address else f"//{address}").port or default
    except ValueError as error:
        raise ConfigurationError(
            f"{setting} in config.properties has no valid port: {address!r} ({error}); write it as http://0.0.0.0:8085."
        ) from error


_RULES: tuple[rules.Rule[Surroundings], ...] = (
    rules.environment,
    rules.placeholders,
    rules.model_store,
    _addresses,
    _models,
    _protocol,
    _metrics,
    rules.sizes,
    _jvm,
)
