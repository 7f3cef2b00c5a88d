"""The handler of `tags`: the k likeliest tags of a picture, each with its probability.

How many is said by the field `k` of a form or of an instance; 5 if it is not there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from pictures import to_batch
from torch import Tensor
from ts.torch_handler.base_handler import BaseHandler
from ts.utils.util import PredictionException

DEFAULT_K = 5


class Tags(BaseHandler):
    """The archive's model is the classifier; the embedding before it is an extra file."""

    def initialize(self, context: Any) -> None:
        super().initialize(context)
        path = Path(context.system_properties["model_dir"], "embedding.pt")
        self.embedding = torch.jit.load(path, map_location=self.device).eval()

    def preprocess(self, data: list[dict[str, Any]]) -> tuple[Tensor, list[int]]:
        return to_batch(data), [_k(row) for row in data]

    def inference(self, data: tuple[Tensor, list[int]]) -> tuple[Tensor, list[int]]:
        pictures, counts = data
        with torch.inference_mode():
            return self.model(self.embedding(pictures.to(self.device))).softmax(dim=1), counts

    def postprocess(self, data: tuple[Tensor, list[int]]) -> list[list[dict[str, Any]]]:
        return [self._likeliest(row, k) for row, k in zip(*data, strict=True)]

    def _likeliest(self, probabilities: Tensor, k: int) -> list[dict[str, Any]]:
        values, classes = probabilities.topk(min(k, len(probabilities)))
        return [
            {"tag": self.mapping[str(number)], "probability": value}
            for number, value in zip(classes.tolist(), values.tolist(), strict=True)
        ]


def _k(row: dict[str, Any]) -> int:
    try:
        k = int(row.get("k", DEFAULT_K))
    except (TypeError, ValueError):
        k = 0
    if k < 1:
        raise PredictionException(f"k is to be a whole number above 0, not {row['k']!r}", 400)
    return k
