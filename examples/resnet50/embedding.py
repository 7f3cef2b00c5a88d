"""The handler of `embedding`: a picture's 2048 features."""

from __future__ import annotations

from typing import Any

from pictures import to_batch
from torch import Tensor
from ts.torch_handler.base_handler import BaseHandler


class Embedding(BaseHandler):
    """BaseHandler loads the TorchScript and runs it on the whole batch."""

    def preprocess(self, data: list[dict[str, Any]]) -> Tensor:
        return to_batch(data)

    def postprocess(self, data: Tensor) -> list[list[float]]:
        return data.tolist()
