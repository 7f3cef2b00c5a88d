"""A network for texts, of the shape that TorchServe's text handlers call: words and offsets in, scores out."""

import torch
from torch import nn

WORDS, LABELS = 16, 3


class Parcels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(WORDS, LABELS, mode="sum")

    def forward(self, text: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return self.embedding(text, offsets)
