"""The archive's handler: 784 grey values from 0 to 1 in, the digit out, on TorchServe's BaseHandler contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from ts.torch_handler.base_handler import BaseHandler

PIXELS = 28 * 28


class DigitHandler(BaseHandler):
    """BaseHandler loads the network and runs it; this class reads the images and picks the digit."""

    def preprocess(self, data: list[Any]) -> Tensor:
        images = [_pixels(number, instance) for number, instance in enumerate(data)]
        return torch.from_numpy(np.stack(images)).reshape(-1, 1, 28, 28).to(self.device)

    def postprocess(self, data: Tensor) -> list[int]:
        return data.argmax(dim=1).tolist()


def _pixels(number: int, instance: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
    values = instance.get("data", instance.get("body")) if isinstance(instance, dict) else instance
    try:
        pixels = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError):
        pixels = np.empty(0, dtype=np.float32)
    if pixels.size != PIXELS:
        raise ValueError(f'instance {number} is not an image: expected {{"data": [{PIXELS} numbers]}}')
    return pixels.ravel()
