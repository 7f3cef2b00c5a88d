"""How each version of a model is to be served: what config.properties, the archive and the flags say. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from data_plane.batching.limits import DEFAULT_MAX_BATCH_SIZE, DEFAULT_QUEUE_SIZE, BatchLimits
from data_plane.batching.sequences import SequenceHeaders, SequenceLimits
from data_plane.messages import Headers
from data_plane.model_server.errors import ConfigurationError

# TorchServe's own, which are made for batches.
_STOCK_HANDLERS = {"image_classifier", "image_segmenter", "object_detector", "text_classifier"}


@dataclass(frozen=True)
class BatchOptions:
    """From the flags, that is from the service's `batcher`: these win. Times in milliseconds."""

    max_batch_size: int | None = None
    max_latency_ms: int | None = None
    timeout_ms: int | None = None


def batch_limits(
    options: BatchOptions, parameters: Mapping[str, Any], properties: Mapping[str, str], handler: str = ""
) -> BatchLimits:
    """For one version of a model; `parameters` are those that the user wrote down for it.

    TorchServe gives a handler one row at a time unless it is told of batches, so one may answer by the first row alone.
    `maxBatchDelay` needs nothing done: no request waits for others to come.
    """
    batch_size = options.max_batch_size or whole(parameters, "batchSize")
    timeout_ms = options.timeout_ms or whole(parameters, "clientTimeoutInMills", 0)
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


def stated_batch_size(options: BatchOptions, parameters: Mapping[str, Any]) -> int:
    """What a handler is told in `system_properties["batch_size"]`, as TorchServe tells it: 1 where nothing is said."""
    return options.max_batch_size or whole(parameters, "batchSize") or 1


def sequence_limits(archive: str, yaml: Mapping[str, Any], batch_size: int, workers: int) -> SequenceLimits | None:
    """For an archive whose handler keeps state between the requests of a sequence; None for any other.

    Where no number of sequences is given there is a place for each request of a batch of each worker, as TorchServe's
    documentation has it. Raises ConfigurationError for what cannot be served.
    """
    if (asked := yaml.get("sequenceBatching")) in (None, False):
        return None
    if asked is not True:
        raise ConfigurationError(f"{archive} has sequenceBatching: {asked!r}; write true or false.")
    if not (max_idle_ms := whole(yaml, "sequenceMaxIdleMSec", 0)):
        raise ConfigurationError(
            f"{archive} asks for sequenceBatching and has no sequenceMaxIdleMSec, without which TorchServe answers "
            "none of its requests; write how many milliseconds a sequence may be without one."
        )
    timeout_ms = whole(yaml, "sequenceTimeoutMSec", 0)
    return SequenceLimits(
        max_sequences=whole(yaml, "maxNumSequence") or batch_size * workers,
        max_idle_s=max_idle_ms / 1000,
        timeout_s=timeout_ms / 1000 if timeout_ms else math.inf,
        queue_size=whole(yaml, "maxSequenceJobQueueSize") or 1,
    )


def sequence_headers(properties: Mapping[str, str]) -> SequenceHeaders:
    """By which headers clients tell of sequences."""

    def name(what: str) -> bytes:
        told = properties.get(f"ts_header_key_sequence_{what}", "").strip() or f"ts_request_sequence_{what}"
        return told.lower().encode("latin-1")

    return SequenceHeaders(name("id"), name("start"), name("end"))


def envelope(properties: Mapping[str, str]) -> str:
    """The service envelope, "none" for none; where nothing is said it is the one that the v1 protocol needs."""
    return properties.get("service_envelope", "kserve").strip() or "none"


def cors_headers(properties: Mapping[str, str]) -> Headers:
    """What every response says to browsers, as TorchServe has it: the settings are the values, to the letter."""
    told = ((what, properties.get(f"cors_allowed_{what}", "").strip()) for what in ("origin", "methods", "headers"))
    return tuple((f"access-control-allow-{what}".encode(), value.encode("latin-1")) for what, value in told if value)


def whole(settings: Mapping[str, Any], name: str, least: int = 1) -> int | None:
    """A setting that is a whole number from `least` up, None if it is not there; raises ConfigurationError."""
    value = settings.get(name)
    if value is None or value == "":
        return None
    try:
        number = int(str(value).strip())
    except ValueError:
        number = least - 1
    if number < least:
        raise ConfigurationError(f"{name} is {value!r}; write a whole number, {least} or more.")
    return number
