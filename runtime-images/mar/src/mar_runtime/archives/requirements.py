"""Installs the packages of an archive's requirements file, for the archive's workers only.

What the image has satisfies a requirement, so pip runs in an environment of the archive's own that sees the image's.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import sysconfig
import venv
from collections.abc import Collection, Mapping
from pathlib import Path

from data_plane.model_server.errors import ModelFailed

log = logging.getLogger(__name__)

# With pip's default of five retries, each of 15 s, an unreachable index would use up the whole startup time.
_PATIENCE = {"PIP_RETRIES": "1"}
# Seconds. Packages of gigabytes may take long on a slow network.
INSTALL_S = 1800


async def install(
    requirements: Path, target: Path, *, model: str, timeout_s: float = INSTALL_S, withheld: Collection[str] = ()
) -> Path | None:
    """Install the packages that the image lacks into `target`; raises ModelFailed with pip's error.

    Return the folder to import them from, or None if the image has them all. `withheld`: environment variables that pip
    does not get.
    """
    if not await asyncio.to_thread(requirements.is_file):
        raise ModelFailed(
            f"Model {model}: its manifest names {requirements.name}, which is not in the archive; pack it again."
        )
    log.info("model %s: installing %s", model, requirements.name)
    await asyncio.to_thread(venv.create, target, clear=True, symlinks=True)
    command = (
        str(target / "bin/python"), "-P", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "--no-input", "-r", str(requirements),
    )  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if name not in withheld}
    pip = await asyncio.create_subprocess_exec(
        *command,
        cwd=requirements.parent,
        env={**_PATIENCE, **environment, **_image(), "PIP_CACHE_DIR": str(target.parent / "pip-cache")},
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
    return await asyncio.to_thread(_installed, target)


def _installed(environment: Path) -> Path | None:
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(environment)}))
    return packages if any(packages.iterdir()) else None


def _image() -> Mapping[str, str]:
    """Return where pip finds the image's packages. They count as installed, but outside of its environment.

    So one that satisfies a requirement is used, and another version of it goes into the environment beside it.
    """
    return {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _errors(output: bytes) -> str:
    """Return pip's errors; pip reports an unreachable index only as a warning."""
    lines = [line for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    unreachable = [line for line in lines if line.startswith("WARNING: Retrying")]
    errors = [line for line in lines if line.startswith("ERROR")]
    return " ".join([*unreachable[-1:], *errors] or lines[-1:])
