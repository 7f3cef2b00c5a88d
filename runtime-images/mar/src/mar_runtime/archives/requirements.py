"""Installs the packages of an archive's requirements file, for the archive's workers only."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Collection
from pathlib import Path

from data_plane.model_server.errors import ModelFailed

log = logging.getLogger(__name__)

# With pip's default of five retries, each of 15 s, an unreachable index would use up the whole startup time.
_PATIENCE = {"PIP_RETRIES": "1"}
# Seconds. Packages of gigabytes may take long on a slow network.
INSTALL_S = 1800


async def install(
    requirements: Path, target: Path, *, model: str, timeout_s: float = INSTALL_S, withheld: Collection[str] = ()
) -> None:
    """Install the packages into `target`; raises ModelFailed with pip's error.

    `withheld`: environment variables that pip does not get.
    """
    if not await asyncio.to_thread(requirements.is_file):
        raise ModelFailed(
            f"Model {model}: its manifest names {requirements.name}, which is not in the archive; pack it again."
        )
    log.info("model %s: installing %s", model, requirements.name)
    command = (
        sys.executable, "-P", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input",
        "--upgrade", "--target", str(target), "-r", str(requirements),
    )  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if name not in withheld}
    pip = await asyncio.create_subprocess_exec(
        *command,
        cwd=requirements.parent,
        env={**_PATIENCE, **environment, "PIP_CACHE_DIR": str(target.parent / "pip-cache")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,  # so that the processes that build packages end with pip
    )
    try:
        async with asyncio.timeout(timeout_s):
            output, _ = await pip.communicate()
    except TimeoutError:
        raise ModelFailed(
            f"Model {model}: {requirements.name} was not installed within {timeout_s:g} s; "
            "check that the package index is reachable, or put the packages into the image."
        ) from None
    finally:
        if pip.returncode is None:  # timeout, or the server stops
            os.killpg(pip.pid, signal.SIGKILL)
            await pip.wait()
    if pip.returncode:
        raise ModelFailed(
            f"Model {model}: {requirements.name} could not be installed: {_errors(output)[:800]} "
            "Correct it, or put the packages into the image."
        )


def _errors(output: bytes) -> str:
    """Return pip's errors; pip reports an unreachable index only as a warning."""
    lines = [line for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    unreachable = [line for line in lines if line.startswith("WARNING: Retrying")]
    errors = [line for line in lines if line.startswith("ERROR")]
    return " ".join([*unreachable[-1:], *errors] or lines[-1:])
