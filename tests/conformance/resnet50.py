"""The sample `resnet50`, with a smaller network, and a picture for it."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.case import multipart, predictions
from tests.conformance.pictures import png
from tests.support.build_cache import sample
from tests.support.runtimes import ROOT, Request

SAMPLE = ROOT / "examples/resnet50"
PICTURE = png(64, 48)
LAYERS = "1,1,1,1"
MODELS = ("embedding", "tags")
_TWO_WORKERS = '"minWorkers": 2, "maxWorkers": 2'


def volume() -> Path:
    """Of a network with fewer layers."""
    return sample("resnet50", "--layers", LAYERS)


def with_one_worker(folder: Path, *models: str) -> Path:
    """Some models of the volume, with one worker each: every further one imports torch and torchvision again."""
    config = (volume() / "config/config.properties").read_text()
    assert config.count(_TWO_WORKERS) == len(MODELS)
    loaded = ",".join(f"{model}={model}.mar" for model in models)
    (folder / "config").mkdir()
    (folder / "config/config.properties").write_text(
        config.replace(_TWO_WORKERS, '"minWorkers": 1, "maxWorkers": 1').replace(
            "load_models=all", f"load_models={loaded}"
        )
    )
    (folder / "model-store").symlink_to(volume() / "model-store")
    return folder


def uploaded(model: str, **fields: bytes) -> Request:
    """As `curl -F data=@picture.png -F k=3`."""
    parts = {name: (None, value) for name, value in fields.items()}
    return predictions(model, *multipart({"data": ("image/png", PICTURE), **parts}))
