"""A stopwatch: a model of each kind in an empty folder, two commands, and the seconds to the first answer.

    python -m tests.bench.first_answer [KIND…]

The first command is `isvc run MODEL`, the second is the curl that it prints. The model of Hugging Face needs
transformers to be built; its handler gets it by requirements.txt.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from model_archive.packing import ArchiveTarget, Sources, pack
from tests.models import sentiment
from tests.support import torch_models
from tests.support.isvc_process import new_sandbox, read_until, stop


def torchscript(folder: Path) -> Path:
    import torch

    return torch_models.save_traced(folder / "affine.pt", torch_models.Affine(), torch.zeros(1, 3))


def onnx(folder: Path) -> Path:
    import torch

    return torch_models.save_onnx(folder / "affine.onnx", torch_models.Affine(), torch.zeros(1, 3))


def mar(folder: Path) -> Path:
    weights = torch_models.save_scripted(folder / "shades.pt", torch_models.Shades())
    return pack(
        Sources(model_name="shades", handler="image_classifier", serialized_file=weights), ArchiveTarget(folder)
    ).path


def huggingface(folder: Path) -> Path:
    model = folder / "sentiment"
    sentiment.build(model)
    return model


KINDS: Mapping[str, Callable[[Path], Path]] = {
    "torchscript": torchscript,
    "onnx": onnx,
    "mar": mar,
    "huggingface": huggingface,
}


def measure(kind: str) -> str:
    """Return the commands, the seconds and the answer; raises CalledProcessError where there is none."""
    with tempfile.TemporaryDirectory() as folder, new_sandbox(Path(folder)) as sandbox:
        model, began = KINDS[kind](sandbox.folder), time.perf_counter()
        with sandbox.running(model) as process:
            announced = read_until(process.stdout, "Ctrl-C stops it.")
            (command,) = re.findall(r"^  (curl .*)$", announced, re.MULTILINE)
            asked = [*shlex.split(command), "--fail-with-body", "-sS"]
            answer = subprocess.run(asked, capture_output=True, check=True, text=True).stdout
            seconds = time.perf_counter() - began
            stop(process)
    return f"{kind}: isvc run {model.name}; curl …: {seconds:.1f} s: {' '.join(answer.split())[:100]}"


if __name__ == "__main__":
    for kind in sys.argv[1:] or KINDS:
        print(measure(kind))
