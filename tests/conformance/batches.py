"""Requests that come at once and are handled as one batch."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tests.conformance.archives import BATCH_SIZE
from tests.conformance.case import predictions, v1
from tests.support.runtimes import Request

TEXTS = tuple(f"text {number}" for number in range(BATCH_SIZE))


@dataclass(frozen=True)
class Batch:
    name: str
    feature: str
    envelope: str
    requests: tuple[Request, ...]
    why: str = ""  # where TorchServe fails


def _instances(*texts: str) -> Request:
    return v1("function", json.dumps({"instances": texts}).encode())


PLAIN = Batch(
    "plain", "batch: requests without an envelope", "", tuple(predictions("function", text.encode()) for text in TEXTS)
)
ONE_RAISES = Batch(
    "one-raises",
    "batch: a request that makes the handler raise",
    "",
    tuple(predictions("function", text.encode()) for text in ("raise", *TEXTS[1:])),
    "TorchServe fails the whole batch; ours fail that request alone",
)
ENVELOPED = Batch(
    "enveloped",
    "batch: requests with envelope `kserve`, of several instances each",
    "kserve",
    tuple(_instances(*TEXTS[: number + 1]) for number in range(BATCH_SIZE)),
    "TorchServe's envelope reads the first request and all fail; ours answer each",
)
BATCHES = (PLAIN, ONE_RAISES, ENVELOPED)
