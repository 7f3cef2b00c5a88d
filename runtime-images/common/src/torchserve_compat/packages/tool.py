"""uv, with the settings that pip would have."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from torchserve_compat.packages.pip_settings import as_uv, settings_of

log = logging.getLogger(__name__)

# Seconds for the answer of an index, and how often it is asked again: one that is unreachable would use up the startup
# time otherwise.
_PATIENCE: Final = {"UV_HTTP_TIMEOUT": "30", "UV_HTTP_RETRIES": "1"}
# As pip, which takes the best version of all indexes; and the image's Python alone.
_LIKE_PIP: Final = (
    *("--index-strategy", "unsafe-best-match", "--no-python-downloads", "--no-progress", "--color", "never"),
    *("--python", sys.executable, "--quiet"),
)
# Of errno: EPERM, EIO, EACCES, ENOSPC, EROFS, EDQUOT.
_OF_THE_DISK: Final = re.compile(r"\(os error (?:1|5|13|28|30|122)\)")


class Failed(Exception):
    """What uv or pip says of its failure, in one line."""

    def __init__(self, output: str) -> None:
        super().__init__(without_credentials(" ".join(output.replace("error: ", "", 1).split())))

    @property
    def of_the_disk(self) -> bool:
        return bool(_OF_THE_DISK.search(str(self)))


@dataclass(frozen=True)
class Uv:
    """uv in an archive's folder."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: Path

    async def pip(self, *command: str) -> None:
        """Run a command of `uv pip`; raises Failed with its error."""
        await self._run("pip", *command, *_LIKE_PIP, *self.arguments)

    async def drop_wheels(self) -> None:
        """Remove the files of packages from uv's cache; raises Failed."""
        await self._run("cache", "prune", "--ci")

    async def _run(self, *command: str) -> None:
        from uv import find_uv_bin  # the image for bare models does not have it

        await _run((find_uv_bin(), *command), self.folder, self.environment)


async def uv_like_pip(folder: Path, environment: Mapping[str, str], cache: Path) -> Uv:
    """Return uv with pip's settings for an installation, from its variables and files; raises Failed."""
    listed = ""
    if PathFinder.find_spec("pip"):  # asked by `find_spec`, setuptools takes its distutils back for this process
        command = (sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "config", "list")
        listed = await _run(command, folder, environment)
    settings = settings_of(listed)
    links = settings.get("find-links", "").split()
    missing = [link for link in links if not await asyncio.to_thread(_is_there, link, folder)]
    if missing:  # to uv they are an error
        log.warning("ignoring find-links that are not there, as pip does: %s", without_credentials(", ".join(missing)))
        settings = {**settings, "find-links": " ".join(link for link in links if link not in missing)}
    arguments, variables = as_uv(settings)
    return Uv(arguments, {**_PATIENCE, **environment, **variables, "UV_CACHE_DIR": str(cache)}, folder)


def without_credentials(text: str) -> str:
    """Return what is said of packages and indexes without the users and passwords of their URLs."""
    return re.sub(r"(?<=://)[^/\s]*@", "", text)


def _is_there(link: str, folder: Path) -> bool:
    """Return whether there is such a folder or file; of another machine's, that is to be seen."""
    url = urlsplit(link)
    return url.scheme not in ("", "file") or (folder / url2pathname(url.path)).exists()


async def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Return a command's output; raises Failed. It ends with its caller."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,  # so that the processes that build packages end with it
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:  # timeout, or the server stops
            with contextlib.suppress(ProcessLookupError):  # it has ended, and asyncio does not know yet
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    text = output.decode("utf-8", "replace")
    if process.returncode:
        raise Failed(text)
    return text
