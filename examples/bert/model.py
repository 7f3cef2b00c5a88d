"""The network: BERT's shape (embeddings, an encoder stack, a pooled first token, a classifier) at toy size.

TorchServe instantiates the one class of this file without arguments, so the sizes are its defaults.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class BertClassifier(nn.Module):
    """Classifies rows of token ids; id 0 is padding."""

    def __init__(
        self, vocabulary: int = 512, positions: int = 32, hidden: int = 64, layers: int = 2, classes: int = 5
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, hidden, padding_idx=0)
        self.positions = nn.Embedding(positions, hidden)
        self.norm = nn.LayerNorm(hidden)
        layer = nn.TransformerEncoderLayer(hidden, nhead=4, dim_feedforward=4 * hidden, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.pooler = nn.Sequential(nn.Linear(hidden, hidden), nn.Tanh())
        self.classifier = nn.Linear(hidden, classes)

    def forward(self, ids: Tensor) -> Tensor:
        positions = torch.arange(ids.shape[1], device=ids.device)
        embedded = self.norm(self.tokens(ids) + self.positions(positions))
        encoded = self.encoder(embedded, src_key_padding_mask=ids == 0)
        logits: Tensor = self.classifier(self.pooler(encoded[:, 0]))
        return logits
