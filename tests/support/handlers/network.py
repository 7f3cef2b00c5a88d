"""What a modelFile is: one class, made without arguments, whose weights are the serializedFile's."""

import torch


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))

    def forward(self, rows):
        return self.layers(rows)
