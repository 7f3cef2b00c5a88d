"""The device that a model file runs on: what stands in for one that is not there, and what its errors become."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import torch

from data_plane.errors import InferenceFailed
from mar_runtime.engines import CannotLoad, GpuLost, load_engine, torch_engine
from tests.support import torch_models

INDEX = (
    "The model failed: CUDA error: device-side assert triggered. A number in the request may be out of the model's "
    "range, such as a token outside its vocabulary. The process cannot use the GPU any more after such an error, and "
    "is replaced."
)


def test_a_device_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = torch_models.save_scripted(tmp_path / "model.pt", torch_models.Affine())

    with pytest.raises(CannotLoad, match="cannot be put on the device 'gpu':"):
        load_engine(path, "gpu", 1)


def test_without_torch_for_gpus_the_cpu_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = torch_models.save_scripted(tmp_path / "model.pt", torch_models.Affine())
    monkeypatch.setattr(torch.version, "cuda", None)

    engine = load_engine(path, "cuda:1", 1)

    assert engine.run({"rows": np.ones((1, 3), np.float32)})["output-0"].tolist() == [[3, 3, 3]]
    assert f"model.pt runs on the CPU: this torch, {torch.__version__}, cannot use cuda:1" in caplog.text


@pytest.mark.parametrize(
    ("said", "is_lost", "kind", "status", "message"),
    [
        (
            "CUDA out of memory. Tried",
            False,
            InferenceFailed,
            507,
            "Out of memory: CUDA out of memory. Tried",
        ),
        ("CUDA error: device-side assert triggered\nFor debugging …", True, GpuLost, 500, INDEX),
        (
            "The following operation failed in the TorchScript interpreter.\nTraceback …\n"
            "RuntimeError: CUDA error: device-side assert triggered\nFor debugging …",
            True,
            GpuLost,
            500,
            INDEX,
        ),
    ],
    ids=["memory", "assertion", "assertion-in-torchscript"],
)
def test_memory_that_ran_out_is_told_from_a_gpu_that_is_lost(
    said: str,
    is_lost: bool,
    kind: type[InferenceFailed],
    status: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The exceptions are CUDA's, as tests/gpu gets them."""

    def fail(*_: object) -> NoReturn:
        raise RuntimeError(said)

    engine = load_engine(torch_models.save_scripted(tmp_path / "model.pt", torch_models.Affine()), "cpu", 1)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", fail if is_lost else lambda: None)
    monkeypatch.setattr(torch_engine, "to_tensor", fail)

    with pytest.raises(InferenceFailed) as caught:
        engine.run({"rows": np.ones((1, 3), np.float32)})

    assert (type(caught.value), caught.value.status, caught.value.message) == (kind, status, message)
