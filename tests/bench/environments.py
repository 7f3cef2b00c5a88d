"""Each peer's own virtual environment, made once from its locked requirements and kept outside the checkout."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.bench.options import Options

REQUIREMENTS = Path(__file__).parent / "peers" / "requirements"
PROGRAMS = Path(__file__).parent / "programs"
UV = str(Path(sys.executable).with_name("uv"))

_MODELS = ("handling.py", "networks.py", "build_models.py")


def python(peer: str, options: Options) -> Path:
    """The interpreter of a peer's environment, which is made if it is not there."""
    lock = REQUIREMENTS / f"{peer}.txt"
    folder = _folder(peer, [lock], options)
    if not folder.exists():
        making = _emptied(folder)
        _run(UV, "venv", "--quiet", "--relocatable", "--python", sys.executable, making)
        _run(UV, "pip", "install", "--quiet", "--compile-bytecode", "--no-deps",
             "--python", making / "bin" / "python", "--requirement", lock)  # fmt: skip
        making.rename(folder)
    return folder / "bin" / "python"


def versions(peer: str) -> dict[str, str]:
    """What a peer's environment holds."""
    pins = (line.split("==") for line in (REQUIREMENTS / f"{peer}.txt").read_text().splitlines() if "==" in line)
    return dict(pins)


def models(options: Options) -> Path:
    """The folder with the TorchScript models, and with what to ask them (works.json)."""
    folder = _folder("models", [REQUIREMENTS / "torch.txt", *(PROGRAMS / name for name in _MODELS)], options)
    if not folder.exists():
        making = _emptied(folder)
        making.mkdir()
        _run(python("torch", options), "-Wignore", PROGRAMS / "build_models.py", making)
        making.rename(folder)
    return folder


def works(options: Options) -> dict[str, dict[str, object]]:
    """Instance and right prediction of each work that has a model."""
    found: dict[str, dict[str, object]] = json.loads((models(options) / "works.json").read_text())
    return found


def _folder(name: str, made_from: Sequence[Path], options: Options) -> Path:
    digest = hashlib.sha256(platform.python_version().encode())
    for path in made_from:
        digest.update(path.read_bytes())
    options.cache.mkdir(parents=True, exist_ok=True)
    return options.cache / f"bench-{name}-{digest.hexdigest()[:12]}"


def _emptied(folder: Path) -> Path:
    """Where to make it, so that a folder under its real name is always whole."""
    making = folder.with_name(f"{folder.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    return making


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True)
