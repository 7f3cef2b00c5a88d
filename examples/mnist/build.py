"""Makes the sample's volumes: ``python build.py OUTDIR`` writes one network in four forms, each ready to be served.

    OUTDIR/mar        config/config.properties and model-store/mnist.mar: a state dict, its class and a handler
    OUTDIR/scripted   model.pt by torch.jit.script, with model-config.yaml
    OUTDIR/traced     model.pt by torch.jit.trace, with model-config.yaml
    OUTDIR/onnx       model.onnx

The weights are random, the same each time. A second run does nothing, unless a file of this folder has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = ("build.py", "config.properties", "handler.py", "model-config.yaml", "model.py")
VOLUMES = ("mar", "scripted", "traced", "onnx")
MARK = ".built-from"
SEED = 119  # with these weights the sample, a 7, is taken for one


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("outdir", type=Path, help="folder to fill (made if missing)")
    outdir: Path = parser.parse_args().outdir
    digest = source_digest()
    if is_built(outdir, digest):
        print(f"{outdir} is up to date")
        return 0
    build(outdir)
    (outdir / MARK).write_text(digest)
    print(f"built {', '.join(VOLUMES)} in {outdir}")
    return 0


def source_digest() -> str:
    return hashlib.sha256(b"\0".join((HERE / name).read_bytes() for name in SOURCES)).hexdigest()


def is_built(outdir: Path, digest: str) -> bool:
    mark = outdir / MARK
    return mark.is_file() and mark.read_text() == digest and all((outdir / volume).is_dir() for volume in VOLUMES)


def build(outdir: Path) -> None:
    """Everything is made beside OUTDIR's volumes, then renamed: no half-made model is ever seen."""
    (outdir / MARK).unlink(missing_ok=True)
    outdir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=outdir) as temporary:
        work = Path(temporary)
        for volume in VOLUMES:
            (work / volume).mkdir()
        write_models(work)
        pack(work)
        for volume in VOLUMES:
            shutil.rmtree(outdir / volume, ignore_errors=True)
            (work / volume).rename(outdir / volume)


def write_models(work: Path) -> None:
    """Write the network's four forms; the state dict is for `pack`."""
    import torch  # here, so that an up-to-date folder costs no import of torch
    from model import ConvNet

    torch.manual_seed(SEED)
    network = ConvNet().eval()
    image = torch.zeros(2, 1, 28, 28)
    torch.save(network.state_dict(), work / "mnist.pt")
    with warnings.catch_warnings():
        # torch recommends torch.export by now, and the ONNX exporter uses what torch itself deprecates.
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(network).save(work / "scripted/model.pt")
        torch.jit.trace(network, image).save(work / "traced/model.pt")
        torch.onnx.export(
            network, (image,), work / "onnx/model.onnx",
            input_names=["image"], output_names=["log_probabilities"],
            dynamic_shapes=({0: torch.export.Dim("batch")},), external_data=False, verbose=False, dynamo=True,
        )  # fmt: skip
    for volume in ("scripted", "traced"):
        shutil.copyfile(HERE / "model-config.yaml", work / volume / "model-config.yaml")


def pack(work: Path) -> None:
    volume = work / "mar"
    (volume / "config").mkdir()
    (volume / "model-store").mkdir()
    shutil.copyfile(HERE / "config.properties", volume / "config/config.properties")
    command = [
        str(Path(sys.executable).with_name("torch-model-archiver")),
        "--model-name", "mnist", "--version", "1.0",
        "--model-file", str(HERE / "model.py"), "--serialized-file", str(work / "mnist.pt"),
        "--handler", str(HERE / "handler.py"), "--export-path", str(volume / "model-store"),
    ]  # fmt: skip
    # The archiver assembles in a folder of the temporary directory that is named after the model alone.
    subprocess.run(command, check=True, env={**os.environ, "TMPDIR": str(work)})


if __name__ == "__main__":
    sys.exit(main())
