"""Small model archives, packed by the real torch-model-archiver."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path


def build_archive(
    store: Path, file: str, handler: str, *, model_name: str | None = None, requirements: str | None = None
) -> Path:
    """Pack a handler's source into `store/file` (`.mar` or `.tar.gz`); the model is named as the file unless told."""
    store.mkdir(parents=True, exist_ok=True)
    name = model_name or file.partition(".")[0]
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        (work / "handler.py").write_text(handler)
        ending = file.removeprefix(file.partition(".")[0])
        command = ["--model-name", name, "--version", "1.0", "--handler", str(work / "handler.py")]
        command += ["--archive-format", "default" if ending == ".mar" else "tgz"]
        if requirements is not None:
            (work / "requirements.txt").write_text(requirements)
            command += ["--requirements-file", str(work / "requirements.txt")]
        subprocess.run(
            [Path(sys.executable).with_name("torch-model-archiver"), *command, "--export-path", work],
            check=True,
            capture_output=True,
            # The archiver assembles in a folder of the temporary directory that is named after the model alone.
            env={**os.environ, "TMPDIR": str(work)},
        )
        (work / f"{name}{ending}").rename(store / file)
    return store / file
