"""Makes the sample's volume: ``python build.py OUTDIR`` splits ResNet-50 in two and packs both halves.

OUTDIR becomes what the claim ``pictures`` holds: ``config/config.properties``, ``model-store/embedding.mar`` and
``model-store/tags.mar``. ``--layers 1,1,1,1`` makes a smaller network of the same shape, for a quick try.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import network

HERE = Path(__file__).parent
COLOURS = (
    "amber", "azure", "beige", "black", "blue", "bronze", "brown", "copper", "coral", "crimson", "cyan", "golden",
    "green", "grey", "ivory", "lilac", "lime", "olive", "orange", "pink", "purple", "red", "silver", "white", "yellow",
)  # fmt: skip
THINGS = (
    "anchor", "apple", "barn", "basket", "bell", "boat", "book", "bottle", "bridge", "candle", "chair", "clock", "cup",
    "door", "drum", "fence", "flag", "fork", "glove", "hammer", "hat", "kettle", "key", "kite", "ladder", "lamp",
    "leaf", "mirror", "pebble", "pencil", "pot", "rope", "scarf", "shell", "spoon", "table", "tower", "train", "tree",
    "wheel",
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("outdir", type=Path, help="folder to fill (made if missing)")
    parser.add_argument("--layers", type=blocks, default=network.RESNET50, help="blocks in each stage (3,4,6,3)")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "`torch.jit", FutureWarning)  # TorchScript is what this example is about
    build(options.outdir, options.layers)
    print(f"built {options.outdir}/model-store/embedding.mar and tags.mar")
    return 0


def blocks(text: str) -> tuple[int, ...]:
    layers = tuple(map(int, text.split(",")))
    if len(layers) != len(network.RESNET50):
        raise argparse.ArgumentTypeError(f"four numbers are needed, as in 3,4,6,3, not {text!r}")
    return layers


def build(outdir: Path, layers: tuple[int, ...]) -> None:
    """Everything is made beside OUTDIR's files, then renamed: no half-made archive is ever seen."""
    for folder in ("config", "model-store"):
        (outdir / folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=outdir) as temporary:
        work = Path(temporary)
        for name, module in zip(("embedding.pt", "classifier.pt"), network.torchscript(layers), strict=True):
            module.save(work / name)
        (work / "index_to_name.json").write_text(json.dumps(labels(), indent=0))
        pack(work, "embedding", "embedding.pt", HERE / "pictures.py")
        pack(work, "tags", "classifier.pt", HERE / "pictures.py", work / "embedding.pt", work / "index_to_name.json")
        for archive in ("embedding.mar", "tags.mar"):
            (work / archive).replace(outdir / "model-store" / archive)
    shutil.copyfile(HERE / "config.properties", outdir / "config/config.properties")


def labels() -> dict[str, str]:
    """A made-up name for each class."""
    return {str(number): " ".join(words) for number, words in enumerate(itertools.product(COLOURS, THINGS))}


def pack(work: Path, name: str, weights: str, *extra: Path) -> None:
    command = [
        str(Path(sys.executable).with_name("torch-model-archiver")),
        "--model-name", name, "--version", "1.0", "--handler", str(HERE / f"{name}.py"),
        "--serialized-file", str(work / weights), "--extra-files", ",".join(map(str, extra)),
        "--export-path", str(work), "--archive-format", "zip-store",  # weights hardly compress
    ]  # fmt: skip
    # The archiver assembles in a folder of the temporary directory that is named after the model alone.
    scratch = work / "scratch"
    scratch.mkdir(exist_ok=True)
    subprocess.run(command, check=True, env={**os.environ, "TMPDIR": str(scratch)})


if __name__ == "__main__":
    sys.exit(main())
