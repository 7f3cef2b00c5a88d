"""`python weights.py OUTDIR` makes the weights of every network of this folder: random ones, the same in each run."""

import importlib
import sys
from pathlib import Path

import torch

NETWORKS = {
    "network": "Network",
    "image_network": "ImageNetwork",
    "box_network": "BoxNetwork",
    "pixel_network": "PixelNetwork",
    "text_network": "TextNetwork",
}
# Words and pairs of them, as the stock text handler looks them up.
VOCABULARY = ["the", "parcel", "is", "late", "the parcel", "parcel is", "is late"]


def main(out):
    torch.manual_seed(0)
    for module, name in NETWORKS.items():
        model = getattr(importlib.import_module(module), name)().eval()
        torch.save(model.state_dict(), out / f"{module}.pt")
        if module == "network":
            torch.jit.script(model).save(out / "network_script.pt")
            torch.onnx.export(model, (torch.zeros(2, 4),), out / "network.onnx", dynamo=False,
                              input_names=["rows"], dynamic_axes={"rows": {0: "batch"}})  # fmt: skip
    torch.save({word: number for number, word in enumerate(VOCABULARY)}, out / "source_vocab.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
