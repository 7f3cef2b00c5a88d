"""``raw_torch.py WORK FOLDER SECONDS BATCH…``: images per second of the bare model in a loop, as JSON on stdout."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import networks
import torch


def main(work: str, folder: Path, seconds: float, batches: list[int]) -> None:
    models = {"eager": networks.network(work), "TorchScript": torch.jit.load(folder / f"{work}.pt")}
    with torch.inference_mode():
        found = {
            f"{name}, batch {batch}": _rate(model, networks.sample(work, batch), seconds)
            for name, model in models.items()
            for batch in batches
        }
    sys.stdout.write(json.dumps(found))


def _rate(model: Any, images: torch.Tensor, seconds: float) -> float:
    for _ in range(5):
        model(images)
    done, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        model(images)
        done += len(images)
    return done / elapsed


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), [int(batch) for batch in sys.argv[4:]])
