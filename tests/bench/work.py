"""What the servers are asked: four works, each as a request of the v1 and of the v2 protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.bench import environments
from tests.bench.options import Options

_BIG = 10 * 1000 * 1000  # bytes


@dataclass(frozen=True)
class Question:
    """One request, and how the predictions are found in the document of its answer."""

    path: str
    body: bytes
    predictions: Callable[[Any], Any] = lambda document: document["predictions"]


@dataclass(frozen=True)
class Work:
    """``data`` is one instance; ``datatype`` and ``shape`` say what it is as a tensor of the v2 protocol."""

    name: str
    what: str
    datatype: str
    shape: Sequence[int]
    data: Any
    prediction: Any

    def v1(self, path: str | None = None) -> Question:
        """As TorchServe's and KServe's users send it."""
        return Question(path or f"/v1/models/{self.name}:predict", _json({"instances": [{"data": self.data}]}))

    def bare(self, path: str) -> Question:
        """For a model without a handler: the instance is the tensor."""
        return Question(path, _json({"instances": [self.data]}))

    def native(self) -> Question:
        """TorchServe's own, without an envelope."""
        return Question(f"/predictions/{self.name}", _json({"data": self.data}), lambda document: [document])

    def v2(self, shape: Sequence[int] = ()) -> Question:
        """The same as the Open Inference Protocol has it; `shape` is for a server that wants another for the values."""
        values = self.data if isinstance(self.data, list) else [self.data]
        tensor = {"name": "data", "datatype": self.datatype, "shape": list(shape or self.shape), "data": values}
        return Question(
            f"/v2/models/{self.name}/infer",
            _json({"inputs": [tensor]}),
            lambda document: document["outputs"][0]["data"],
        )


def load(options: Options) -> dict[str, Work]:
    """The works by name."""
    made: dict[str, Any] = environments.works(options)
    return {
        work.name: work
        for work in (
            Work("mnist", "MNIST ConvNet, 4.6 KB of JSON", "FP32", (1, 784), **made["mnist"]),
            Work("image", "ResNet-18 on a 100 KB base64 JPEG", "BYTES", (1,), **made["image"]),
            Work("noop", "a model that returns its input", "INT64", (1,), 7, 7),
            Work("big", "the length of a string of 10 MB", "BYTES", (1,), "x" * _BIG, _BIG),
        )
    }


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
