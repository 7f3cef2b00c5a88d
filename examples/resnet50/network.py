"""ResNet-50 in two halves: a picture's 2048 features, and the classes that they speak for.

The weights are random, the same each time: they say nothing of pictures, but their work is that of trained ones.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torchvision.models.resnet import Bottleneck, ResNet

RESNET50 = (3, 4, 6, 3)
FEATURES = 2048
CLASSES = 1000
_PICTURE = (1, 3, 224, 224)


def split(layers: tuple[int, ...], seed: int = 0) -> tuple[nn.Module, nn.Module]:
    """(embedding, classifier) of one network with so many blocks in each of its four stages."""
    torch.manual_seed(seed)
    network = ResNet(Bottleneck, list(layers), num_classes=CLASSES).eval()
    classifier = network.fc
    network.fc = nn.Identity()
    return network, classifier


def to_torchscript(module: nn.Module, example: Tensor) -> torch.jit.ScriptModule:
    """Traced and frozen: batch norm is folded into the convolutions before it."""
    with torch.no_grad():
        traced = torch.jit.trace(module, example)
    return torch.jit.freeze(traced)


def torchscript(layers: tuple[int, ...]) -> tuple[torch.jit.ScriptModule, torch.jit.ScriptModule]:
    """Both halves as TorchScript."""
    embedding, classifier = split(layers)
    return to_torchscript(embedding, torch.zeros(_PICTURE)), to_torchscript(classifier, torch.zeros(1, FEATURES))
