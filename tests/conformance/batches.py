"""Concurrent requests that are handled as one batch."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tests.conformance.archives import BATCH_SIZE
from tests.conformance.case import predictions, v1, v2
from tests.support.runtimes import Request

TEXTS = tuple(f"text {number}" for number in range(BATCH_SIZE))


@dataclass(frozen=True)
class Batch:
    name: str
    feature: str
    envelope: str  # the name of the model directory
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
    "TorchServe fails the whole batch; ours fails only that request",
)
ENVELOPED = Batch(
    "enveloped",
    "batch: requests with envelope `kserve`, of several instances each",
    "kserve",
    tuple(_instances(*TEXTS[: number + 1]) for number in range(BATCH_SIZE)),
    "TorchServe's envelope reads only the first request, and all fail; ours responds to each",
)
ROWS = Batch(
    "rows",
    "no `batchSize`: concurrent requests to `/predictions/<model>` run one by one",
    "settings",
    tuple(predictions("first", b"body %d" % number) for number in range(8)),
)
TENSOR = {"name": "x", "datatype": "INT64", "shape": [1]}
TENSORS = Batch(
    "tensors",
    "no `batchSize`: concurrent v2 requests with `kservev2` run one by one",
    "kservev2",
    tuple(
        v2("first", json.dumps({"id": str(number), "inputs": [{**TENSOR, "data": [number]}]}).encode())
        for number in range(8)
    ),
)
BATCHES = (PLAIN, ONE_RAISES, ENVELOPED, ROWS, TENSORS)
