"""A model, with the inputs of calls in a row and the outputs that were computed for them beside the server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from data_plane.protocol.v2.tensors import Array, Tensor

Arrays = Mapping[str, Array]
Outputs = Mapping[str, Any]  # arrays, and lists of dictionaries


@dataclass(frozen=True)
class Step:
    inputs: Arrays
    outputs: Outputs


@dataclass(frozen=True)
class Case:
    """`carried`: inputs that each call but the first takes from an output of the call before, as a client would."""

    name: str
    folder: Path
    are_rows: bool
    carried: Mapping[str, str]
    steps: Sequence[Step]

    @property
    def model_dir(self) -> Path:
        return self.folder / "model"


def write(case: Case) -> None:
    """Write all but the model into the case's folder."""
    steps = [{"inputs": _plain(step.inputs), "outputs": _plain(step.outputs)} for step in case.steps]
    document = {"are_rows": case.are_rows, "carried": dict(case.carried), "steps": steps}
    (case.folder / "case.json").write_text(json.dumps(document))


def read(folder: Path) -> Case:
    document = json.loads((folder / "case.json").read_text())
    steps = [Step(_arrays(step["inputs"]), _arrays(step["outputs"])) for step in document["steps"]]
    return Case(folder.name, folder, document["are_rows"], document["carried"], steps)


def _plain(values: Outputs) -> dict[str, Any]:
    return {name: _described(value) if isinstance(value, np.ndarray) else value for name, value in values.items()}


def _described(array: Array) -> dict[str, Any]:
    tensor = Tensor.from_numpy("", array)
    data = [one.decode() for one in tensor.data.flat] if tensor.datatype == "BYTES" else tensor.data.tolist()
    return {"dtype": tensor.data.dtype.str, "shape": tensor.shape, "data": data}


def _arrays(plain: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one if isinstance(one, list) else _array(one) for name, one in plain.items()}


def _array(described: Mapping[str, Any]) -> Array:
    if described["dtype"] != "|O":
        return np.array(described["data"], described["dtype"]).reshape(described["shape"])
    array = np.empty(len(described["data"]), dtype=object)
    array[:] = [one.encode() for one in described["data"]]
    return array.reshape(described["shape"])
