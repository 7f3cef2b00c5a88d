"""Boxes, labels and scores for images, in torchvision's form of a detector's output."""

import torch


class BoxNetwork(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, images):
        return [self.detect(image) for image in images]

    def detect(self, image):
        height, width = image.shape[1:]
        boxes = self.scale * torch.tensor([[0.0, 0.0, width / 2, height / 2], [1.0, 1.0, 3.0, 4.0]])
        return {"boxes": boxes, "labels": torch.tensor([1, 2]), "scores": torch.stack([image.max(), image.min() / 2])}
