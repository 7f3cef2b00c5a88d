"""The cases, built once for their sources, and the servers of their models."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.models import case
from tests.models.case import Case
from tests.models.packages import REQUIREMENTS, Packages, installed
from tests.support.build_cache import ROOT, kept
from tests.support.ports import free_port
from tests.support.runtimes import Runtime

TITLES = {
    "silero-vad": "silero-vad, ONNX",
    "silero-vad-sequence": "silero-vad for recordings, ONNX",
    "silero-vad-jit": "silero-vad, TorchScript",
    "iris-zipmap": "scaler and logistic regression, ONNX with ZipMap",
    "iris-tensors": "the same, ONNX without ZipMap",
    "tfidf": "TF-IDF and logistic regression, ONNX with ZipMap",
    "columns": "columns of numbers and text, random forest, ONNX with ZipMap",
    "regression": "PCA and gradient boosting, ONNX",
    "several": "two classifiers in one (MultiOutputClassifier), ONNX",
    "outliers": "isolation forest, ONNX",
    "torchcrepe": "torchcrepe, traced TorchScript",
    "torchcrepe-export": "torchcrepe, torch.export",
    "resemblyzer": "resemblyzer, traced TorchScript",
    "minilm": "all-MiniLM-L6-v2, archive with requirements",
}
RUNTIMES = {"mar": "isvc-mar", "adapter": "kserve-torchserve"}
_LOOPBACK = "http://127.0.0.1"
_ADDRESSES = ("inference_address", "management_address", "metrics_address")
# An archive is served by both runtimes, a bare model by one.
SERVED = tuple((name, kind) for name in TITLES for kind in (RUNTIMES if name == "minilm" else ("mar",)))
_SOURCES = [REQUIREMENTS, *(Path(__file__).with_name(f"{name}.py") for name in ("build", "case", "embedding_handler"))]


def read(name: str) -> Case:
    """The case of this name; all are built if they are not there."""
    packages = installed()
    return case.read(kept("models", lambda folder: _build(packages, folder), *_SOURCES) / name)


@contextmanager
def served(one: Case, kind: str, *, locales: Path | None = None, **environment: str) -> Iterator[Runtime]:
    """A server of the case's model, on a machine with en_US.UTF-8 or with the locales in a folder."""
    packages = installed()
    with tempfile.TemporaryDirectory() as folder:
        model_dir = Path(folder) / "model"
        shutil.copytree(one.model_dir, model_dir)
        if kind == "adapter":  # behind it, TorchServe has ports of its own, which others may have on this machine
            config = model_dir / "config/config.properties"
            config.write_text(
                config.read_text() + "".join(f"{name}={_LOOPBACK}:{free_port()}\n" for name in _ADDRESSES)
            )
        with Runtime(
            kind, model_dir, "--service-name", one.name,
            LOCPATH=str(locales or packages.locales), **{"PIP_NO_INDEX": "", **environment},
        ) as runtime:  # fmt: skip
            yield runtime


def _build(packages: Packages, folder: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "tests.models.build", packages.site, folder],
        check=True,
        cwd=ROOT,
        env={**os.environ, "LOCPATH": str(packages.locales), "OMP_NUM_THREADS": "1"},
    )
