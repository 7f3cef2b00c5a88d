"""Classes for images of any size."""

import torch


class ImageNetwork(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.features = torch.nn.Conv2d(3, 4, 3, stride=16)
        self.classes = torch.nn.Linear(4, 6)

    def forward(self, images):
        return self.classes(self.features(images).relu().mean(dim=(2, 3)))
