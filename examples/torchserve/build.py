"""Packs archives as TorchServe's users have them: ``python build.py OUTDIR``. Nothing is downloaded.

    OUTDIR/image_classifier   what the bucket holds: config/config.properties, model-store/mnist.mar and densenet161.mar
    OUTDIR/archives           what the claim holds: model-store/mnist.mar, parcels.mar and densenet_161.mar
    OUTDIR/…                  what is sent: digit.jpg, photo.png, parcel.txt, and mnist.json and densenet161.json for v1

OUTDIR/samples.json has more pictures, with what the models say about them here. The weights are random, the same each
time.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch
from densenet import ImageClassifier
from mnist import Digits
from mnist_handler import Handler
from parcels import Parcels
from PIL import Image
from torch import nn
from ts.torch_handler.image_classifier import ImageClassifier as StockHandler

HERE = Path(__file__).parent
SEED = 20
TOP = 5  # classes in the stock handler's answer
ADVICE = {"arrived": "Enjoy it.", "broken": "Send it back.", "late": "Track it."}
WORDS = ("the", "parcel", "is", *ADVICE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("outdir", type=Path, help="folder to fill (made if missing)")
    outdir: Path = parser.parse_args().outdir
    with tempfile.TemporaryDirectory() as work, torch.no_grad():
        digits, classifier = write_networks(Path(work))
        for name, archives in archives_of(Path(work)).items():
            store = outdir / name / "model-store"
            store.mkdir(parents=True, exist_ok=True)
            for options in archives:
                pack(store, *options)
            (outdir / name / "config").mkdir(exist_ok=True)
            shutil.copyfile(HERE / f"{name.replace('_', '-')}.properties", outdir / name / "config/config.properties")
        write_requests(outdir, digits, classifier)
    print(f"built {outdir}/image_classifier and {outdir}/archives")
    return 0


def write_networks(work: Path) -> tuple[nn.Module, nn.Module]:
    """Write weights, and what else goes into the archives; return the networks that take pictures."""
    torch.manual_seed(SEED)
    digits, classifier = Digits().eval(), ImageClassifier().eval()
    for name, network in (("mnist", digits), ("densenet161", classifier), ("parcels", parcels())):
        torch.save(network.state_dict(), work / f"{name}.pth")
    torch.save({word: number for number, word in enumerate(WORDS)}, work / "source_vocab.pt")
    for name, labels in (("pictures", class_names()), ("texts", list(ADVICE))):
        (work / name).mkdir()
        (work / name / "index_to_name.json").write_text(json.dumps(dict(enumerate(labels))))
    with ZipFile(work / "parcel_advice-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("parcel_advice.py", f"ADVICE = {ADVICE!r}\n")
        about = "parcel_advice-1.dist-info"
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: parcel-advice\nVersion: 1\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    return digits, classifier


def parcels() -> nn.Module:
    """Each label is also the word that tells it."""
    network = Parcels().eval()
    network.embedding.weight.zero_()
    for label, word in enumerate(ADVICE):
        network.embedding.weight[WORDS.index(word), label] = 5
    return network


def class_names() -> list[str]:
    return [f"class {number}" for number in range(1000)]


def archives_of(work: Path) -> Mapping[str, list[tuple[str | Path, ...]]]:
    """The options of torch-model-archiver for each archive of a store."""
    mnist = (
        "--model-file", HERE / "mnist.py", "--serialized-file", work / "mnist.pth",
        "--handler", HERE / "mnist_handler.py",
    )  # fmt: skip
    densenet = (
        "--model-file", HERE / "densenet.py", "--serialized-file", work / "densenet161.pth",
        "--handler", "image_classifier", "--extra-files", work / "pictures/index_to_name.json",
    )  # fmt: skip
    extra = ("source_vocab.pt", "texts/index_to_name.json", "parcel_advice-1-py3-none-any.whl")
    text = (
        "--model-file", HERE / "parcels.py", "--serialized-file", work / "parcels.pth",
        "--handler", HERE / "parcels_handler.py", "--requirements-file", HERE / "requirements.txt",
        "--extra-files", ",".join(str(work / name) for name in extra),
    )  # fmt: skip
    return {
        "image_classifier": [("mnist", *mnist), ("densenet161", *densenet)],
        "archives": [("mnist", *mnist), ("parcels", *text), ("densenet_161", *densenet)],
    }


def pack(store: Path, name: str, *options: str | Path) -> None:
    archiver = Path(sys.executable).with_name("torch-model-archiver")
    command = [archiver, "--model-name", name, "--version", "1.0", *options, "--export-path", store, "--force"]
    with tempfile.TemporaryDirectory() as temporary:
        # The archiver assembles in a folder of the temporary directory that is named after the model alone.
        subprocess.run(command, env={**os.environ, "TMPDIR": temporary}, check=True)


def write_requests(outdir: Path, digits: nn.Module, classifier: nn.Module) -> None:
    drawn = digit_samples(digits)
    photo = pattern(320, 240, lambda x, y: x + x * y // 7).convert("RGB")
    samples: dict[str, Any] = {"mnist": drawn, "densenet161": photo_sample(photo, classifier)}
    Image.open(io.BytesIO(base64.b64decode(drawn[0]["image"]))).save(outdir / "digit.jpg", quality=100)
    photo.save(outdir / "photo.png")
    (outdir / "parcel.txt").write_text("The parcel is late!")
    for model, image in (("mnist", drawn[0]["image"]), ("densenet161", samples["densenet161"]["image"])):
        (outdir / f"{model}.json").write_text(json.dumps({"instances": [{"data": image}]}))
    (outdir / "samples.json").write_text(json.dumps(samples))


def digit_samples(model: nn.Module) -> list[dict[str, Any]]:
    """One image for each of some digits, in base64 and as the numbers that the model takes."""
    drawn = [pattern(28, 28, lambda x, y, step=step: x * y * step) for step in range(1, 200)]
    tensors = torch.stack([Handler.image_processing(image) for image in drawn])
    found: dict[int, dict[str, Any]] = {}
    for image, tensor, scores in zip(drawn, tensors, model(tensors), strict=True):
        digit = int(scores.argmax())
        # No close call: batches of another size may round differently.
        if digit not in found and (best := scores.topk(2).values)[0] - best[1] > 0.01:
            found[digit] = {"image": base64_png(image), "pixels": tensor.flatten().tolist(), "digit": digit}
    return list(found.values())


def photo_sample(image: Image.Image, model: nn.Module) -> dict[str, Any]:
    best = model(StockHandler.image_processing(image).unsqueeze(0)).softmax(1)[0].topk(TOP)
    names = class_names()
    answer = {names[index]: value for index, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)}
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
    sys.exit(main())
