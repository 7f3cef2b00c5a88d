"""What is ready when an archive's handler is loaded."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.unit.handler.running import context, no_piece, whole
from transformer_sdk.handler.frames import Batch
from transformer_sdk.handler.loading import HandlerLoader, LoadFailure, describe

POOLS = """
import torch
from torch.profiler import ProfilerActivity, profile

with torch.inference_mode(), profile(activities=[ProfilerActivity.CPU]) as profiled:
    torch.max_pool2d(torch.randn(2, 16, 28, 28), 2)
finds_indices = "aten::max_pool2d_with_indices" in {event.key for event in profiled.key_averages()}

def handle(data, context):
    return [{"finds_indices": finds_indices}]
"""


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    """What loading took out of the reach of garbage collection."""
    yield
    gc.unfreeze()


def test_torch_pools_without_indices_from_the_handlers_first_line_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "pools.py").write_text(POOLS)
    loader = HandlerLoader(lambda _: None)

    loader.load("m", str(tmp_path), "pools.py:handle", None, 1, "none")
    result = loader.calls.run(Batch("raw", [whole(b"", "application/json")]), context(), no_piece)

    assert orjson.loads(result.answers[0].body) == {"finds_indices": False}


def test_what_an_error_quotes_can_be_sent(tmp_path: Path) -> None:
    failure = describe("m", str(tmp_path), SystemExit("no label \ud800"))

    assert failure == LoadFailure("m", "SystemExit", r"no label \ud800", "", None)
