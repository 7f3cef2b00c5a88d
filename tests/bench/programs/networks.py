"""The networks, with random weights that are the same on every run."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional
from torchvision.models import resnet18


class ConvNet(nn.Module):
    """The usual MNIST network."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.conv1(pixels.view(-1, 1, 28, 28)))
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        return self.fc2(functional.relu(self.fc1(torch.flatten(x, 1))))


class Labels(nn.Module):
    """A network whose answer is the likeliest class: with it, a bare TorchScript file answers as a handler, and takes
    ``{"data": …}`` as well."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return self.network(data).argmax(1)


def network(work: str) -> nn.Module:
    """The network of a work, ready to answer."""
    torch.manual_seed(0)
    return Labels(ConvNet() if work == "mnist" else resnet18()).eval()


def sample(work: str, size: int) -> torch.Tensor:
    """A batch for it."""
    torch.manual_seed(1)
    return torch.rand(size, 784) if work == "mnist" else torch.rand(size, 3, 224, 224)
