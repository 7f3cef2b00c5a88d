"""A class for every pixel of a coarse image, in torchvision's form of a segmentation's output."""

import torch


class PixelNetwork(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.classes = torch.nn.Conv2d(3, 5, 1)

    def forward(self, images):
        return {"out": self.classes(torch.nn.functional.adaptive_avg_pool2d(images, 4))}
