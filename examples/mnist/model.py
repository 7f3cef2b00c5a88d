"""The network: the usual small ConvNet for 28×28 grey digits, with the size of its layers as in most tutorials."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ConvNet(nn.Module):
    """Images in, one row of ten log-probabilities out."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, kernel_size=3)
        self.conv2 = nn.Conv2d(32, 64, kernel_size=3)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, image: Tensor) -> Tensor:
        features = torch.relu(self.conv2(torch.relu(self.conv1(image))))
        flat = torch.flatten(torch.max_pool2d(features, 2), 1)
        return torch.log_softmax(self.fc2(torch.relu(self.fc1(flat))), dim=1)
