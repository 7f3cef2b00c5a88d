"""From a request to a tensor; goes into both archives.

A picture comes as bytes in the multipart field `data` or as the whole body, and as base64 text in an instance of the v1
protocol.
"""

from __future__ import annotations

import base64
import binascii
import io
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from torchvision import transforms
from ts.utils.util import PredictionException

_TO_TENSOR = transforms.Compose(
    [
        transforms.Resize(256),
        transforms.CenterCrop(224),
        transforms.ToTensor(),
        transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
    ]
)


def to_batch(rows: list[dict[str, Any]]) -> Tensor:
    """One picture for each row; raises PredictionException (400) for what is none."""
    return torch.stack([_TO_TENSOR(_read(row)) for row in rows])


def _read(row: dict[str, Any]) -> Image.Image:
    content = row.get("data") or row.get("body") or b""
    try:
        encoded = base64.b64decode(content, validate=True) if isinstance(content, str) else content
        return Image.open(io.BytesIO(encoded)).convert("RGB")
    except (OSError, TypeError, binascii.Error) as error:
        raise PredictionException(f"This is no picture ({type(error).__name__})", 400) from error
