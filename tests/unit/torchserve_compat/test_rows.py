"""Requests that are one row each for the handler are merged only where the limits say so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from data_plane.batching.limits import BatchLimits
from data_plane.batching.metrics import BatchMetricsRegistry
from data_plane.protocol.torchserve.requests import RawRequest
from data_plane.protocol.v1 import decode_request
from data_plane.protocol.v2.requests import TensorRequest
from data_plane.protocol.v2.tensors import Tensor
from tests.support.batching import call
from torchserve_compat import frames, tensors
from torchserve_compat.server.model import HandlerModel
from torchserve_compat.server.transport import OnPiece


class Recording:
    """A way to a handler that keeps each batch's number of requests."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    async def send(
        self, batch: frames.HandlerBatch, is_wanted: Callable[[], bool], on_piece: OnPiece
    ) -> frames.HandlerResult:
        size = len(batch.requests)
        self.sizes.append(size)
        body = tensors.encode_predictions([0]) if batch.form == "v2" else b"{}"
        return frames.HandlerResult([frames.HandlerResponse(body)] * size, 0.0)


async def sizes(
    envelope: str, form: str, *, merges_rows: bool = False, max_batch_size: int = 32, body: bytes = b""
) -> list[int]:
    """How many requests each batch had, three having come at once."""
    metrics = BatchMetricsRegistry(CollectorRegistry()).of_model("m")
    recording = Recording()
    limits = BatchLimits(max_batch_size, merges_rows=merges_rows)
    model = HandlerModel("m", "1", recording, limits=limits, metrics=metrics, workers=1, envelope=envelope)
    instances = decode_request(b'{"instances": [1]}')
    inputs = TensorRequest((Tensor.from_numpy("x", np.array([1])),))
    ask = {
        "raw": lambda: model.raw(RawRequest(body), call()),
        "raw-explain": lambda: model.raw(RawRequest(body, explain=True), call()),
        "v1": lambda: model.predict(instances, call()),
        "explain": lambda: model.explain(instances, call()),
        "v2": lambda: model.infer(inputs, call()),
    }[form]
    await asyncio.gather(*(ask() for _ in range(3)))
    return recording.sizes


@pytest.mark.parametrize("envelope", ["none", "body", "kserve", "json", "kservev2"])
@pytest.mark.parametrize("form", ["raw", "raw-explain"])
async def test_requests_of_torchserves_own_api_are_not_merged(envelope: str, form: str) -> None:
    assert await sizes(envelope, form) == [1, 1, 1]


@pytest.mark.parametrize("envelope", ["none", "body", "kservev2"])
@pytest.mark.parametrize("form", ["v1", "explain", "v2"])
async def test_without_an_envelope_of_instances_nothing_is_merged(envelope: str, form: str) -> None:
    assert await sizes(envelope, form) == [1, 1, 1]


@pytest.mark.parametrize("envelope", ["kserve", "json"])
@pytest.mark.parametrize("form", ["v1", "explain", "v2"])
async def test_instances_are_merged(envelope: str, form: str) -> None:
    assert await sizes(envelope, form) == [3]


@pytest.mark.parametrize(
    ("envelope", "form"), [("none", "v1"), ("body", "raw"), ("kserve", "raw-explain"), ("kservev2", "v2")]
)
async def test_rows_are_merged_where_the_limits_say_so(envelope: str, form: str) -> None:
    assert await sizes(envelope, form, merges_rows=True) == [3]


@pytest.mark.parametrize("form", ["raw", "raw-explain"])
@pytest.mark.parametrize(
    ("envelope", "body", "expected"),
    [
        ("kserve", b'{"instances": [1, 2]}', [1, 1, 1]),
        ("json", b'{"more": 1, "instances": [1, 2]}', [1, 1, 1]),
        ("kserve", b'{"instances": [1]}', [3]),
        ("kserve", b'{"inputs": [1, 2]}', [3]),
        ("kserve", b'{"instances": {}}', [3]),
        ("kserve", b'{"instances": [%b1, 2]}' % (b"[" * 30_000), [3]),
        ("kserve", b"[1, 2]", [3]),
        ("kservev2", b'{"instances": [1, 2]}', [3]),
        ("none", b'{"instances": [1, 2]}', [3]),
    ],
)
async def test_limits_count_the_instances_of_torchserves_own_api(
    form: str, envelope: str, body: bytes, expected: list[int]
) -> None:
    assert await sizes(envelope, form, merges_rows=True, max_batch_size=3, body=body) == expected
