"""A model folder as TorchServe's users have it: a config.properties and one archive, the same for every server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.bench.environments import PROGRAMS
from tests.bench.peers.peer import Place
from tests.support.model_folder import manifest, write_mar

# For the 10 MB bodies, and so that no client of the largest number is turned away.
_LIMITS = {"max_request_size": "20000000", "max_response_size": "20000000", "job_queue_size": "1000"}


def model_folder(place: Place, properties: Mapping[str, str]) -> Path:
    """Writes it; returns the folder with config/ and model-store/."""
    folder = place.folder / "model"
    (folder / "config").mkdir(parents=True)
    lines = [f"{name}={value}\n" for name, value in {**_LIMITS, **properties}.items()]
    (folder / "config" / "config.properties").write_text("".join(lines))
    files = {"handler.py": PROGRAMS / "torchserve_handler.py", "handling.py": PROGRAMS / "handling.py"}
    model = place.models / f"{place.work.name}.pt"
    if model.exists():
        files[model.name] = model
    content = {name: path.read_bytes() for name, path in files.items()}
    write_mar(folder / "model-store" / f"{place.work.name}.mar", manifest(modelName=place.work.name), content)
    return folder
