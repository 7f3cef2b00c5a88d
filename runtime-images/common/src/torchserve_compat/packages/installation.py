"""Installs the packages of an archive's requirements file, for the archive's workers only, by uv.

What the image has satisfies a requirement. uv learns of it by wheels that have the metadata of the image's packages
and nothing else, and by a lock file that lists their versions, which uv keeps where it can. Of what it chooses, the
packages of the image are not installed. Another version of a package comes to lie beside the image's, for the archive
alone, but not of those that all workers have (``SHARED``).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import re
import shutil
import sys
import sysconfig
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from data_plane.model_server.errors import ModelFailed
from model_archive.text import format_size
from torchserve_compat.limits import INSTALL_TIME
from torchserve_compat.packages.cache import PackageCache, size_of
from torchserve_compat.packages.image import describe_image
from torchserve_compat.packages.reasons import reason_of
from torchserve_compat.packages.tool import Failed, Uv, uv_like_pip, without_credentials
from torchserve_compat.server.errors import BESIDE

log = logging.getLogger(__name__)

# Workers, and what torch's handlers use of C, have these of the image: two versions in a process cannot both be right.
SHARED: Final = ("torch", "torchvision", "numpy", "torchserve", "msgspec")
# Incremented whenever the same packages would be installed as other files.
_FORMAT: Final = 1
_BARE: Final = ("--no-header", "--no-annotate")
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[\w.-]*\w)?")
_INCLUDED: Final = re.compile(rb"^\s*(?:-r|-c|--requirement|--constraint)[ =]*(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Installer:
    """Installs into the folder that pods of a node share, if there is one and it can be used, or into the model's own.

    `fixed`: packages that have the image's version. `withheld`: environment variables that uv does not get.
    `compiled`: with bytecode, for those who do not import from that folder.
    """

    node: PackageCache | None = None
    fixed: Collection[str] = SHARED
    withheld: Collection[str] = ()
    compiled: bool = False

    async def install(
        self, requirements: Path, work: Path, *, model: str, timeout_s: float = INSTALL_TIME
    ) -> Path | None:
        """Install the packages that the image lacks; raises ModelFailed with the reason.

        Return the folder to import them from, or None if the image has them all. `work` is the model's own folder.
        """
        if not await asyncio.to_thread(requirements.is_file):
            raise ModelFailed(
                f"Model {model}: its manifest names {requirements.name}, which is not in the archive; pack it again."
            )
        try:
            async with asyncio.timeout(timeout_s):
                return await self._install(_Request(requirements, work, model))
        except TimeoutError:
            raise ModelFailed(
                f"Model {model}: {requirements.name} was not installed within {timeout_s:g} s; "
                f"check that the package index is reachable, or install the packages {BESIDE}."
            ) from None
        except Failed as error:
            lines = await asyncio.to_thread(_lines_named, requirements, str(error))
            raise ModelFailed(
                f"Model {model}: {requirements.name}{lines} could not be installed: {reason_of(str(error), self.fixed)}"
            ) from None

    async def _install(self, request: _Request) -> Path | None:
        if self.node:
            try:
                await asyncio.to_thread(self.node.prepare)
                return await self._install_from(self.node, request)
            except (Failed, OSError) as error:
                if isinstance(error, Failed) and not error.of_the_disk:
                    raise
                log.warning("the packages in %s cannot be used (%s); installing without them", self.node.root, error)
        return await self._install_from(None, request)

    async def _install_from(self, node: PackageCache | None, request: _Request) -> Path | None:
        environment = {name: value for name, value in os.environ.items() if name not in self.withheld}
        downloads = node.downloads if node else request.work / "uv"
        describing = asyncio.ensure_future(asyncio.to_thread(describe_image, request.work / "image", self.fixed))
        try:  # by no gather: that one, cancelled, does not wait until pip has ended
            uv = await uv_like_pip(request.requirements.parent, environment, downloads)
            image = await describing
        finally:
            describing.cancel()
        request.lock.write_text(image.lock)
        resolve = ("compile", str(request.requirements), "--output-file", str(request.lock), *image.arguments)
        try:
            await uv.pip(*resolve, *_BARE)
        except Failed as error:
            if not node:
                raise
            uv = await _offline(uv, resolve, error)
        lacking = image.lacks(request.lock.read_text())
        if not lacking:
            return None
        request.lock.write_text("\n".join(lacking))
        request.satisfied.write_text("\n".join(image.satisfies(lacking)))
        key = await _key(uv, request) if node else None
        if node and key:
            found = await node.provide(key, partial(self._fill, request, uv, node))
            log.info("model %s: what %s needs is in %s", request.model, request.requirements.name, found)
            return found
        target = request.work / "packages"
        await asyncio.to_thread(shutil.rmtree, target, ignore_errors=True)
        await self._fill(request, uv, None, target)
        return target

    async def _fill(self, request: _Request, uv: Uv, node: PackageCache | None, target: Path) -> None:
        started = time.monotonic()
        names = without_credentials(", ".join(request.lock.read_text().splitlines()))
        log.info("model %s: installing for %s: %s", request.model, request.requirements.name, names)
        if node:
            await _make_room(node, uv)
        compiling = ("--compile-bytecode",) if self.compiled else ()
        # The file of the archive as well, for the hashes in it. A link to its folder would not be followed.
        await uv.pip(
            "install", "--target", str(target), "--no-deps", "--no-editable", "--requirement", str(request.lock),
            "--requirement", str(request.requirements), "--excludes", str(request.satisfied), *compiling,
        )  # fmt: skip
        size = format_size(await asyncio.to_thread(size_of, target))
        log.info("model %s: installed %s in %.1f s", request.model, size, time.monotonic() - started)


@dataclass(frozen=True)
class _Request:
    """A requirements file of a model, and a folder for what uv is to read."""

    requirements: Path
    work: Path
    model: str

    @property
    def lock(self) -> Path:
        return self.work / "lock.txt"

    @property
    def satisfied(self) -> Path:
        return self.work / "satisfied.txt"


def _lines_named(requirements: Path, failure: str) -> str:
    """Return which lines of a file have the packages that a failure names: `, line 3,`; empty if there are none."""
    lines = requirements.read_text(encoding="utf-8", errors="replace").splitlines()
    found = [(number, _NAME.match(line)) for number, line in enumerate(lines, 1)]
    words = {*re.findall(r"[\w.-]+", failure.lower())}
    numbers = [str(number) for number, name in found if name and name[0].lower() in words]
    return f", line{'s'[: len(numbers) > 1]} {' and '.join(numbers)}," if 1 <= len(numbers) <= 3 else ""


async def _offline(uv: Uv, resolve: Sequence[str], error: Failed) -> Uv:
    """Resolve with what is in uv's cache, if the index does not answer; raises `error` if that does not suffice."""
    uv = replace(uv, arguments=(*uv.arguments, "--offline"))
    try:
        await uv.pip(*resolve, *_BARE)
    except Failed:
        raise error from None
    log.warning("taking what was downloaded before, because of: %s", error)
    return uv


async def _key(uv: Uv, request: _Request) -> str | None:
    """Return a digest of all that would be installed, or None if there is a folder or repository in it."""
    hashed = request.work / "hashed.txt"
    await uv.pip(
        "compile", str(request.lock), str(request.requirements), "--excludes", str(request.satisfied),
        "--generate-hashes", "--emit-build-options", "--output-file", str(hashed), *_BARE,
    )  # fmt: skip
    lines = hashed.read_text().replace("\\\n", "").splitlines()
    if not all("--hash=" in line for line in lines if line and not line.startswith("--")):
        return None
    texts = b"\n".join(_read(request.requirements, set()))  # for the hashes in it
    parts = (_FORMAT, sys.version, sysconfig.get_platform(), lines, texts.hex())
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _read(requirements: Path, known: set[Path]) -> Iterator[bytes]:
    """Yield the text of a requirements file and of those that it includes."""
    if requirements in known or not requirements.is_file():
        return
    known.add(requirements)
    yield (text := requirements.read_bytes())
    for name in _INCLUDED.findall(text):
        yield from _read(requirements.parent / os.fsdecode(name), known)


async def _make_room(node: PackageCache, uv: Uv) -> None:
    if await asyncio.to_thread(node.is_full):
        await uv.drop_wheels()
        await asyncio.to_thread(node.evict)
