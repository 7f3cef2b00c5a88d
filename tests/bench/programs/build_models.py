"""``build_models.py FOLDER``: TorchScript files, one instance for each, and what the right prediction is."""

from __future__ import annotations

import base64
import io
import json
import sys
from pathlib import Path

import handling
import networks
import numpy
import torch
from PIL import Image

_JPEG_BYTES = 75_000  # 100 KB as base64


def main(folder: Path) -> None:
    data = {"mnist": [round(value, 3) for value in networks.sample("mnist", 1)[0].tolist()], "image": _jpeg()}
    for work in data:
        with torch.inference_mode():
            torch.jit.trace(networks.network(work), networks.sample(work, 2)).save(folder / f"{work}.pt")
    works = {
        work: {"data": value, "prediction": handling.load(work, folder)([{"data": value}])[0]}
        for work, value in data.items()
    }
    (folder / "works.json").write_text(json.dumps(works))


def _jpeg() -> str:
    """A picture with about as much detail as a photograph of that size has."""
    noise = numpy.random.default_rng(0).integers(0, 255, (120, 160, 3), dtype=numpy.uint8)
    image = Image.fromarray(noise).resize((640, 480), Image.Resampling.BICUBIC)
    for quality in range(30, 96):
        file = io.BytesIO()
        image.save(file, "JPEG", quality=quality)
        if file.tell() >= _JPEG_BYTES:
            break
    return base64.b64encode(file.getvalue()).decode()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
