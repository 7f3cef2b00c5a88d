"""Makes the claim of the second story: ``python build.py CLAIM SAMPLES`` packs two archives as their users do.

CLAIM gets ``config/config.properties`` and ``model-store/`` with ``mnist.mar`` (a state dict, its own handler) and
``densenet161.mar`` (TorchScript, a stock handler and its index_to_name.json). SAMPLES becomes a file of requests with
what the models say about them here.
"""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from mnist import Digits
from mnist_handler import Handler
from PIL import Image
from torch import nn
from ts.torch_handler.image_classifier import ImageClassifier

HERE = Path(__file__).parent
LABELS = ("cat", "dog", "horse", "ship", "tree", "truck")
TOP = 5  # classes in the stock handler's answer


def main(claim: Path, samples: Path) -> None:
    torch.manual_seed(20)
    digits, classifier = Digits().eval(), small_classifier().eval()
    (claim / "config").mkdir(parents=True)
    shutil.copy(HERE / "config.properties", claim / "config")
    with tempfile.TemporaryDirectory() as work, torch.no_grad():
        pack_digits(claim / "model-store", Path(work), digits)
        pack_classifier(claim / "model-store", Path(work), classifier)
        samples.write_text(json.dumps({"mnist": digit_samples(digits), "densenet161": photo_sample(classifier)}))


def small_classifier() -> nn.Module:
    """As large as a test needs; its archive has the name of the story's."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, len(LABELS))
    )


def pack_digits(store: Path, work: Path, model: nn.Module) -> None:
    torch.save(model.state_dict(), work / "mnist.pt")
    files = ("--model-file", HERE / "mnist.py", "--serialized-file", work / "mnist.pt")
    pack(store, "mnist", *files, "--handler", HERE / "mnist_handler.py")


def pack_classifier(store: Path, work: Path, model: nn.Module) -> None:
    torch.jit.trace(model, torch.zeros(1, 3, 224, 224)).save(work / "densenet161.pt")
    names = {str(number): label for number, label in enumerate(LABELS)}
    (work / "index_to_name.json").write_text(json.dumps(names))
    files = ("--serialized-file", work / "densenet161.pt", "--extra-files", work / "index_to_name.json")
    pack(store, "densenet161", *files, "--handler", "image_classifier")


def pack(store: Path, name: str, *options: str | Path) -> None:
    store.mkdir(exist_ok=True)
    archiver = Path(sys.executable).with_name("torch-model-archiver")
    with tempfile.TemporaryDirectory() as temporary:
        # The archiver assembles in a folder of the temporary directory that is named after the model alone.
        subprocess.run(
            [archiver, "--model-name", name, "--version", "1.0", *options, "--export-path", store],
            env={**os.environ, "TMPDIR": temporary},
            check=True,
        )


def digit_samples(model: nn.Module) -> list[dict[str, object]]:
    """One image for each of some digits, in base64 and as the numbers that the model takes."""
    drawn = [pattern(28, 28, lambda x, y, step=step: x * y * step) for step in range(1, 200)]
    tensors = torch.stack([Handler.image_processing(image) for image in drawn])
    found: dict[int, dict[str, object]] = {}
    for image, tensor, scores in zip(drawn, tensors, model(tensors), strict=True):
        digit = int(scores.argmax())
        # No close call: batches of another size may round differently.
        if digit not in found and (best := scores.topk(2).values)[0] - best[1] > 0.01:
            found[digit] = {"image": base64_png(image), "pixels": tensor.flatten().tolist(), "digit": digit}
    return list(found.values())


def photo_sample(model: nn.Module) -> dict[str, object]:
    image = pattern(320, 240, lambda x, y: x + x * y // 7).convert("RGB")
    scores = model(ImageClassifier.image_processing(image).unsqueeze(0)).softmax(1)[0]
    best = scores.topk(TOP)
    answer = {LABELS[index]: value for index, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)}
    return {"image": base64_png(image), "answer": answer}


def pattern(width: int, height: int, brightness: Callable[[int, int], int]) -> Image.Image:
    return Image.frombytes(
        "L", (width, height), bytes(brightness(x, y) % 256 for y in range(height) for x in range(width))
    )


def base64_png(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
