"""`python -m torchserve_adapter.install FOLDER FILE [CACHE]`: what TorchServe has pip do, with what the image has.

TorchServe runs it (`launch` tells how) in place of `pip install -U -t FOLDER -r FILE`, where FOLDER is an unpacked
archive. Exit code 1 and the reason tell it that the model cannot be served.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from pathlib import Path

from data_plane.model_server.errors import ModelFailed
from torchserve_compat.packages.cache import PackageCache
from torchserve_compat.packages.installation import Installer


def main(folder: Path, requirements: Path, cache: Path | None) -> None:
    """Install into the folder; raises ModelFailed."""
    manifest = json.loads((folder / "MAR-INF/MANIFEST.json").read_text())
    # As with pip, an archive may bring another torch than the image's. Each worker is a new process here.
    installer = Installer(PackageCache(cache) if cache else None, fixed=(), compiled=cache is not None)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        packages = asyncio.run(installer.install(requirements, Path(work), model=manifest["model"]["modelName"]))
        if packages:
            # With their times, so that bytecode stays valid.
            shutil.copytree(packages, folder, symlinks=True, copy_function=_copy, dirs_exist_ok=True)


def _copy(source: str, target: str) -> None:
    """Copy a file in place of one of the archive, whose content a link may share with others."""
    Path(target).unlink(missing_ok=True)
    shutil.copy2(source, target, follow_symlinks=False)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]) if sys.argv[3:] else None)
    except (ModelFailed, OSError) as error:
        sys.exit(str(error))
