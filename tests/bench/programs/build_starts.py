"""``build_starts.py FOLDER``: a model directory for each start, named after it."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from zipfile import ZipFile

import onnx
import torch

_WIDTH = 2896  # three layers of it are 100 MB
_HANDLER = """import torch
{imports}

def handle(data, context):
    return [1 for _ in data or ()]
"""


def main(folder: Path) -> None:
    _bare(folder / "bare" / "model.pt")
    _onnx(folder / "onnx" / "model.onnx")
    _archive(folder / "archive" / "model-store" / "model.mar", ())
    _archive(folder / "torchvision" / "model-store" / "model.mar", ["from torchvision import transforms"])


def _bare(path: Path) -> None:
    path.parent.mkdir()
    layers = [layer for _ in range(3) for layer in (torch.nn.Linear(_WIDTH, _WIDTH), torch.nn.ReLU())]
    with warnings.catch_warnings(action="ignore"):  # torch wants new models exported otherwise
        torch.jit.trace(torch.nn.Sequential(*layers).eval(), torch.rand(2, _WIDTH)).save(path)


def _onnx(path: Path) -> None:
    path.parent.mkdir()
    given, found = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 4]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "relu", [given], [found])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)


def _archive(path: Path, imports: Iterable[str]) -> None:
    path.parent.mkdir(parents=True)
    described = {"modelName": "model", "modelVersion": "1.0", "handler": "handler.py"}
    with ZipFile(path, "w") as archive:
        archive.writestr("handler.py", _HANDLER.format(imports="\n".join(imports)))
        archive.writestr("MAR-INF/MANIFEST.json", json.dumps({"runtime": "python", "model": described}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
