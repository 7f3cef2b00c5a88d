"""Makes the sample's volume: ``python build.py OUTDIR`` trains the classifier and packs it for TorchServe.

OUTDIR becomes what the claim ``leeway`` holds: ``config/config.properties`` and ``model-store/bert-model.mar``.
A second run finds its own mark in OUTDIR and does nothing, unless a file of this folder has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = (
    "build.py", "config.properties", "handler.py", "index_to_name.json", "model.py", "sentences.json",
    "training.py", "wordpiece.py",
)  # fmt: skip
ARCHIVE = Path("model-store/bert-model.mar")
CONFIG = Path("config/config.properties")
MARK = Path(".built-from")


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
    print(f"built {outdir / ARCHIVE} and {outdir / CONFIG}")
    return 0


def source_digest() -> str:
    return hashlib.sha256(b"\0".join((HERE / name).read_bytes() for name in SOURCES)).hexdigest()


def is_built(outdir: Path, digest: str) -> bool:
    mark = outdir / MARK
    return (
        mark.is_file() and mark.read_text() == digest and (outdir / ARCHIVE).is_file() and (outdir / CONFIG).is_file()
    )


def build(outdir: Path) -> None:
    """Everything is made beside OUTDIR's files, then renamed: no half-made archive is ever seen."""
    (outdir / MARK).unlink(missing_ok=True)
    outdir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=outdir) as temporary:
        work = Path(temporary)
        make_weights(work)
        pack(work)
        shutil.copyfile(HERE / "config.properties", work / CONFIG.name)
        for target in (ARCHIVE, CONFIG):
            (outdir / target.parent).mkdir(exist_ok=True)
            (work / target.name).replace(outdir / target)


def make_weights(work: Path) -> None:
    """Write ``vocab.txt`` and ``bert.pt``, once the check sentences come out right."""
    import torch  # here, so that an up-to-date folder costs no import of torch
    import training

    train, check = training.load_sentences()
    vocabulary = training.build_vocabulary(train)
    tokenizer = training.WordPiece(vocabulary)
    model = training.train(train, tokenizer)
    training.check(model, tokenizer, check)
    (work / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    torch.save(model.state_dict(), work / "bert.pt")


def pack(work: Path) -> None:
    extra = [work / "vocab.txt", HERE / "index_to_name.json", HERE / "wordpiece.py"]
    command = [
        str(Path(sys.executable).with_name("torch-model-archiver")),
        "--model-name", ARCHIVE.stem, "--version", "1.0",
        "--model-file", str(HERE / "model.py"), "--serialized-file", str(work / "bert.pt"),
        "--handler", str(HERE / "handler.py"), "--extra-files", ",".join(map(str, extra)),
        "--export-path", str(work),
    ]  # fmt: skip
    # The archiver assembles in a folder of the temporary directory that is named after the model alone.
    # Not in this process's group: Ctrl-C ends it by this process, without a traceback of its own.
    subprocess.run(command, check=True, env={**os.environ, "TMPDIR": str(work)}, process_group=0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
