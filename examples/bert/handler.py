"""The custom handler: text in, class number out, on TorchServe's BaseHandler contract.

With the ``kserve`` envelope TorchServe passes the request's ``instances``; without it, one ``{"data": …}`` or
``{"body": …}`` per request. Both are lists of something that holds a text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from ts.torch_handler.base_handler import BaseHandler
from wordpiece import WordPiece


class BertHandler(BaseHandler):
    """BaseHandler loads the network and runs it; this class adds the tokenizer and picks the class."""

    def initialize(self, context: Any) -> None:
        super().initialize(context)
        vocabulary = Path(context.system_properties["model_dir"], "vocab.txt").read_text(encoding="utf-8")
        self.tokenizer = WordPiece(vocabulary.splitlines())

    def preprocess(self, data: list[Any]) -> Tensor:
        texts = [_text(number, instance) for number, instance in enumerate(data)]
        rows = self.tokenizer.encode_batch(texts, max_length=self.model.positions.num_embeddings)
        return torch.tensor(rows, device=self.device)

    def postprocess(self, data: Tensor) -> list[int]:
        return data.argmax(dim=1).tolist()


def _text(number: int, instance: Any) -> str:
    value = instance.get("data", instance.get("body")) if isinstance(instance, dict) else instance
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8")
    if isinstance(value, str):
        return value
    raise ValueError(
        f'instance {number} holds no text: expected a string or {{"data": "some text"}}, got {instance!r:.80}'
    )
