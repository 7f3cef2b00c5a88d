"""The sample `resnet50`, with a smaller network, and a picture for it."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.case import multipart, predictions
from tests.conformance.pictures import png
from tests.support.kept import sample
from tests.support.runtimes import ROOT, Request

SAMPLE = ROOT / "examples/resnet50"
PICTURE = png(64, 48)
LAYERS = "1,1,1,1"
MODELS = ("embedding", "tags")


def volume() -> Path:
    """Of a network with fewer layers."""
    return sample("resnet50", "--layers", LAYERS)


def uploaded(model: str, **fields: bytes) -> Request:
    """As `curl -F data=@picture.png -F k=3`."""
    parts = {name: (None, value) for name, value in fields.items()}
    return predictions(model, *multipart({"data": ("image/png", PICTURE), **parts}))
