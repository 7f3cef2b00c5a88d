"""Limits and settings of each model version, from config.properties, the archive and the flags. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from data_plane.batching.limits import BatchLimits
from data_plane.batching.sequences import SequenceHeaders, SequenceLimits
from data_plane.limits import DEFAULT_MAX_BATCH_SIZE, DEFAULT_QUEUE_SIZE
from data_plane.messages import Headers
from data_plane.model_server.errors import ConfigurationError
from torchserve_compat.store.known_settings import LEAST, MAX_NUMBER

_ENVELOPES = ("kserve", "kservev2", "json", "body", "none")
_WORKERS = ("minWorkers", "maxWorkers")
_WHOLE = re.compile(r"[+-]?[0-9]{1,100}")  # Python reads no more than some thousands of digits
# TorchServe's own handlers, which support batches.
_STOCK_HANDLERS = {"image_classifier", "image_segmenter", "object_detector", "text_classifier"}


@dataclass(frozen=True)
class BatchOptions:
    """Options from the flags, which the service's `batcher` sets; they override all others. Times in milliseconds."""

    max_batch_size: int | None = None
    max_latency_ms: int | None = None
    timeout_ms: int | None = None


def batch_limits(
    options: BatchOptions, parameters: Mapping[str, Any], properties: Mapping[str, str], handler: str = ""
) -> BatchLimits:
    """Return the limits of one version of a model; `parameters` are the user's parameters for it.

    Without a batch size, TorchServe gives a handler one row at a time, so a handler may use only the first row.
    `maxBatchDelay` is ignored: no request waits for others.
    """
    batch_size = options.max_batch_size or whole(parameters, "batchSize")
    timeout_ms = options.timeout_ms or whole(parameters, "clientTimeoutInMills")
    continuous = parameters.get("continuousBatching") is True
    if continuous and parameters.get("sequenceBatching") is True:
        raise ConfigurationError(
            "continuousBatching and sequenceBatching together are not supported; remove one of them from the archive's "
            "YAML."
        )
    return BatchLimits(
        max_batch_size=batch_size or (1 if continuous else DEFAULT_MAX_BATCH_SIZE),
        max_latency_s=options.max_latency_ms / 1000 if options.max_latency_ms else None,
        queue_size=whole(parameters, "jobQueueSize") or whole(properties, "job_queue_size") or DEFAULT_QUEUE_SIZE,
        timeout_s=timeout_ms / 1000 if timeout_ms else None,
        merges_rows=batch_size is not None or handler in _STOCK_HANDLERS,
        continuous=continuous,
    )


def installs_requirements(properties: Mapping[str, str]) -> bool:
    """Return whether config.properties asks for the packages of each model's requirements file."""
    return properties.get("install_py_dep_per_model", "").strip().lower() == "true"


def stated_batch_size(options: BatchOptions, parameters: Mapping[str, Any]) -> int:
    """Return `system_properties["batch_size"]` for a handler's context: 1 by default, as in TorchServe."""
    return options.max_batch_size or whole(parameters, "batchSize") or 1


def sequence_limits(archive: str, yaml: Mapping[str, Any], batch_size: int, workers: int) -> SequenceLimits | None:
    """Return the limits for a handler that keeps state between the requests of a sequence; None for any other.

    The default number of sequences is the batch size times the number of workers, as TorchServe documents it. Raises
    ConfigurationError for settings that are not supported.
    """
    if (asked := yaml.get("sequenceBatching")) in (None, False):
        return None
    if asked is not True:
        raise ConfigurationError(f"{archive} has sequenceBatching: {asked!r}; write true or false.")
    if not (max_idle_ms := whole(yaml, "sequenceMaxIdleMSec")):
        raise ConfigurationError(
            f"{archive} asks for sequenceBatching and has no sequenceMaxIdleMSec, without which TorchServe answers "
            "none of its requests; write how many milliseconds a sequence may be without one."
        )
    timeout_ms = whole(yaml, "sequenceTimeoutMSec")
    return SequenceLimits(
        max_sequences=whole(yaml, "maxNumSequence") or batch_size * workers,
        max_idle_s=max_idle_ms / 1000,
        timeout_s=timeout_ms / 1000 if timeout_ms else math.inf,
        queue_size=whole(yaml, "maxSequenceJobQueueSize") or 1,
    )


def sequence_headers(properties: Mapping[str, str]) -> SequenceHeaders:

    def header(what: str) -> bytes:
        setting = f"ts_header_key_sequence_{what}"
        return (_of_header(properties, setting) or f"ts_request_sequence_{what}".encode()).lower()

    return SequenceHeaders(header("id"), header("start"), header("end"))


def envelope(properties: Mapping[str, str]) -> str:
    """Return the service envelope, by default the one that the v1 protocol needs; raises ConfigurationError."""
    name = properties.get("service_envelope", "kserve").strip() or "none"
    if name not in _ENVELOPES:
        raise ConfigurationError(f"There is no service envelope {name!r}; use one of {', '.join(_ENVELOPES)}.")
    return name


def cors_headers(properties: Mapping[str, str]) -> Headers:
    values = ((what, _of_header(properties, f"cors_allowed_{what}")) for what in ("origin", "methods", "headers"))
    return tuple((f"access-control-allow-{what}".encode(), value) for what, value in values if value)


def _of_header(properties: Mapping[str, str], setting: str) -> bytes:
    value = properties.get(setting, "").strip()
    if not value.isprintable() or any(character > "\xff" for character in value):
        raise ConfigurationError(f"{setting} is {value!r}, which no header can hold; write printable Latin characters.")
    return value.encode("latin-1")


def whole(settings: Mapping[str, Any], name: str, where: str = "") -> int | None:
    """Return a setting that is a whole number, or None if it is missing or empty; raises ConfigurationError."""
    value = settings.get(name)
    return None if value is None or value == "" else number(name, value, where)


def number(name: str, value: Any, where: str = "") -> int:
    """Return the value of a setting that is a whole number; raises ConfigurationError, which begins with ``where``."""
    found, least = parsed(value), LEAST[name]
    about = f"{where}: {name}" if where else name
    if found is None or found < least:
        raise ConfigurationError(f"{about} is {value!r}; write a whole number, {least} or more.")
    if found > MAX_NUMBER:
        raise ConfigurationError(f"{about} is {value!r}; write a whole number, {MAX_NUMBER} or less.")
    return found


def no_settings(archive: str, file: str) -> ConfigurationError:
    """Return the error for a YAML file of an archive that is a list or a text, or has nothing in it."""
    return ConfigurationError(
        f"{archive}: its {file} has no settings; write NAME: VALUE in each line, or pack it again without that file."
    )


def parsed(value: Any) -> int | None:
    """Return the whole number that a value or its text is, None if it is another one."""
    text = str(value).strip()
    return int(text) if _WHOLE.fullmatch(text) else None


def usable(yaml: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings in an archive's YAML without those that TorchServe ignores."""
    left_out = ignored(yaml)
    return {name: value for name, value in yaml.items() if name not in left_out}


def ignored(yaml: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the settings in an archive's YAML whose values TorchServe ignores, each with what to write."""
    found = {
        name: f"write a whole number from {LEAST[name]} to {MAX_NUMBER}"
        + (", without quotes" if isinstance(value, str) and parsed(value) is not None else "")
        for name, value in yaml.items()
        if name in LEAST and not (type(value) is int and LEAST[name] <= value <= MAX_NUMBER)
    }
    workers = [yaml[name] for name in _WORKERS if name in yaml and name not in found]
    if workers != sorted(workers):
        found |= dict.fromkeys(_WORKERS, "write a maxWorkers that is not below minWorkers")
    return found
