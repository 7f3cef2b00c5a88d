"""Rules that change the user's configuration so that TorchServe runs well in a pod. Pure.

Each rule is a function on the draft; `effective` applies them in order. Other settings stay unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from data_plane.limits import DEFAULT_MAX_BATCH_SIZE
from data_plane.model_server.errors import ConfigurationError
from model_archive.configuration import Table
from torchserve_adapter.batching import FRAME_BYTES
from torchserve_compat.store import rules
from torchserve_compat.store.known_settings import LEAST
from torchserve_compat.store.models import entries, named_in_models, parse_table, snapshot_models
from torchserve_compat.store.properties import Draft
from torchserve_compat.store.settings import whole
from torchserve_compat.store.snapshot import complete

LOOPBACK = "127.0.0.1"
_MIB = 1024 * 1024

# TorchServe's own defaults. Where nobody has set an address, a free port is taken instead: the defaults are ours in a
# pod, and on a laptop another program may take them before TorchServe does.
_HTTP_PORTS = {"inference_address": 8080, "management_address": 8081, "metrics_address": 8082}
_GRPC_PORTS = {"inference": 7070, "management": 7071}
_MAX_RESPONSE_SIZE = 6553500
_JOB_QUEUE_SIZE = 100

# The frontend only copies bytes: a quick start matters more than fully optimized code.
_JVM_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True)
class TorchServeInputs(rules.RuleInputs):
    """The inputs of the common rules, and those for a JVM with its own ports."""

    port_for: Callable[[int], int] = int  # returns the wanted port if it is free, else another; for 0 any
    memory_bytes: int | None = None


def as_written(properties: Mapping[str, str], inputs: TorchServeInputs) -> Mapping[str, str]:
    """Return the user's settings, overridden by the environment and the flags; raises ConfigurationError."""
    return rules.effective(properties, inputs, _READING).properties


def effective(properties: Mapping[str, str], inputs: TorchServeInputs) -> Draft:
    """Return TorchServe's configuration with all changes; raises ConfigurationError."""
    return rules.effective(properties, inputs, _RULES)


def check_names(models: Iterable[str]) -> None:
    """Raise ConfigurationError for a name with a slash, at which TorchServe splits paths."""
    for name in models:
        if "/" in name:
            raise ConfigurationError(f"Model {name!r} cannot be reached by TorchServe; give it a name without '/'.")


def management_port(written: Mapping[str, str]) -> int | None:
    """Return the port of the management API; None if it is off."""
    if rules.has_model_api(written):
        return _port_of("management_address", written.get("management_address", ""), _HTTP_PORTS["management_address"])
    return None


def _unset(draft: Draft, _: TorchServeInputs) -> None:
    """Leave out what is empty and has a default: TorchServe ends for an empty number or table."""
    for setting in (*LEAST, "models"):
        if not draft.get(setting):
            draft.properties.pop(setting, None)


def _addresses(draft: Draft, inputs: TorchServeInputs) -> None:
    for setting, default in _HTTP_PORTS.items():
        given = draft.get(setting)
        wanted = _port_of(setting, given, default) if given else 0
        port = inputs.port_for(wanted)
        moved = f"; port {wanted} is taken" if wanted and port != wanted else ""
        draft.set(setting, f"http://{LOOPBACK}:{port}", f"all requests go through the adapter{moved}")
    for api, default in _GRPC_PORTS.items():
        wanted = _port_of(f"grpc_{api}_port", f":{draft.get(f'grpc_{api}_port', str(default))}", default)
        draft.set(f"grpc_{api}_address", LOOPBACK, "all requests go through the adapter")
        if (port := inputs.port_for(wanted)) != wanted:
            draft.set(f"grpc_{api}_port", str(port), f"port {wanted} is taken")


def _models(draft: Draft, _: TorchServeInputs) -> None:
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
    archives = re.sub(r"\s*([,=])\s*", r"\1", draft.get("load_models"))
    if archives:
        draft.set("load_models", archives, "without the blanks, which TorchServe takes for parts of the names")
    else:
        named = named_in_models(table)
        every = "no archive is named: every one in the model store is loaded"
        draft.set("load_models", named, every if named == "all" else "the archives named in models")


def _give_a_worker(draft: Draft, setting: str, document: dict[str, Any], table: Table) -> None:
    """Give each model at least one worker: nobody outside the pod could add one."""
    idle = [parameters for _, _, parameters in entries(setting, table) if whole(parameters, "minWorkers") == 0]
    for parameters in idle:
        parameters["minWorkers"] = 1
        parameters["maxWorkers"] = max(1, whole(parameters, "maxWorkers") or 1)
    if idle:
        draft.set(setting, json.dumps(document), "minWorkers 0 → 1: a model without a worker cannot answer")


def _protocol(draft: Draft, _: TorchServeInputs) -> None:
    if "service_envelope" in draft.properties:
        draft.set_default("service_envelope", "none", "nothing stands there")
    draft.set_default("service_envelope", "kserve", 'so that {"instances": […]} reaches the handler as its list')
    draft.set(
        "disable_token_authorization", "true", "tokens would lock out the adapter; TorchServe is on loopback only"
    )


def _sizes(draft: Draft, inputs: TorchServeInputs) -> None:
    """Raise TorchServe's limits, which apply to frames; the adapter enforces the limits for requests."""
    rules.sizes(draft, inputs)
    # A number of one byte and a comma in JSON becomes eight bytes in a tensor.
    request = 4 * rules.max_request_size(draft.properties) + FRAME_BYTES
    draft.set("max_request_size", _at_most_int(request), "for batches; the adapter keeps the limit of each request")
    response = (whole(draft.properties, "max_response_size") or _MAX_RESPONSE_SIZE) * DEFAULT_MAX_BATCH_SIZE
    draft.set("max_response_size", _at_most_int(response), "for batches of responses")
    if (whole(draft.properties, "job_queue_size") or _JOB_QUEUE_SIZE) < _JOB_QUEUE_SIZE:
        draft.set("job_queue_size", str(_JOB_QUEUE_SIZE), "requests wait in the adapter, which keeps this limit")


def _at_most_int(number: int) -> str:
    return str(min(number, 2**31 - 1))


def _metrics(draft: Draft, inputs: TorchServeInputs) -> None:
    if named := draft.get("metrics_config"):
        draft.set("metrics_config", str(inputs.model_dir / named), "relative to the model directory")
    draft.set("enable_metrics_api", "true", "the adapter's /metrics includes TorchServe's")
    draft.set("metrics_mode", "prometheus", "the adapter's /metrics includes TorchServe's")
    draft.set_default(
        "disable_system_metrics", "true", "the node's figures are not the pod's; set it to false to have them"
    )


def _jvm(draft: Draft, inputs: TorchServeInputs) -> None:
    if inputs.memory_bytes is None:
        draft.set_default("vmargs", _JVM_FLAGS, "a quick start")
        return
    heap = min(max(inputs.memory_bytes // 8 // _MIB, 128), 1024)
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


_RULES: tuple[rules.Rule[TorchServeInputs], ...] = (
    rules.environment,
    rules.flags,
    rules.placeholders,
    rules.model_store,
    _unset,
    _addresses,
    _models,
    _protocol,
    _metrics,
    _sizes,
    _jvm,
)
_READING: tuple[rules.Rule[TorchServeInputs], ...] = (
    rules.environment,
    rules.flags,
    rules.placeholders,
    rules.sizes,
)
