"""Installs what an archive's requirements file asks for, beside the archive and for its workers only."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path

from transformer_sdk.model_store.errors import ModelFailed

log = logging.getLogger(__name__)


async def install(requirements: Path, target: Path, model: str) -> None:
    """Raises ModelFailed, with pip's last word, for what cannot be installed."""
    if not await asyncio.to_thread(requirements.is_file):
        raise ModelFailed(
            f"Model {model}: its manifest names {requirements.name}, which is not in the archive; pack it again."
        )
    log.info("model %s: installing %s", model, requirements.name)
    command = (
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input",
        "--upgrade", "--target", str(target), "-r", str(requirements),
    )  # fmt: skip
    pip = await asyncio.create_subprocess_exec(
        *command,
        cwd=requirements.parent,
        env={**os.environ, "PIP_CACHE_DIR": str(target.parent / "pip-cache")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await pip.communicate()
    finally:
        if pip.returncode is None:  # the server is told to stop
            pip.kill()
    if pip.returncode:
        said = [line for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
        errors = [line for line in said if line.startswith("ERROR")] or said[-1:]
        raise ModelFailed(
            f"Model {model}: {requirements.name} could not be installed: {' '.join(errors)[:500]} "
            "Correct it, or put the packages into the image."
        )
