"""Servers that install what an archive requires from the folder of a node, and an index of packages for them."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import http.server
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from zipfile import ZipFile

import psutil

from data_plane.model_server.errors import ModelFailed
from torchserve_compat.packages.cache import PackageCache
from torchserve_compat.packages.installation import Installer

MODULES = 200


@dataclass
class Index:
    """Its URL, and the paths that were downloaded from it."""

    url: str = ""
    downloads: list[str] = field(default_factory=list)


class _Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *arguments: object, index: Index, **options: object) -> None:
        self.index = index
        super().__init__(*arguments, **options)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        if self.path.endswith(".whl"):
            self.index.downloads.append(self.path)
        super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def package_index(folder: Path) -> Iterator[Index]:
    """Serve the packages in a folder, each in a folder of its name."""
    index = Index()
    handler = functools.partial(_Handler, directory=str(folder), index=index)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        index.url = f"http://127.0.0.1:{server.server_port}/"
        try:
            yield index
        finally:
            server.shutdown()
            thread.join()


def make_large_wheel(folder: Path, name: str, version: str = "1") -> Path:
    """A package of many modules with 10 KiB each, with the page of an index that says what PyPI says of a package."""
    path = folder / name / f"{name}-{version}-py3-none-any.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    described = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    with ZipFile(path, "w") as wheel:
        for number in range(MODULES):
            wheel.writestr(f"{name}/m{number}.py", f"NUMBER = {number}\n#".ljust(10 << 10, "x"))
        wheel.writestr(f"{name}/__init__.py", f"VERSION = {version!r}\n")
        wheel.writestr(f"{described}/METADATA", metadata)
        wheel.writestr(f"{described}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{described}/RECORD", "")
    path.with_name(f"{path.name}.metadata").write_text(metadata)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    link = f'<a href="{path.name}#sha256={digest}" data-core-metadata="true">{path.name}</a>'
    path.with_name("index.html").write_text(f"<!DOCTYPE html><html><body>{link}</body></html>")
    return path


@dataclass(frozen=True)
class Server:
    """A process that installs as a runtime does, and ends."""

    process: subprocess.Popen[str]

    def installed(self) -> Path:
        """Return the folder with the packages."""
        output, errors = self.process.communicate()
        assert self.process.returncode == 0, errors
        return Path(output.strip())

    def log(self) -> str:
        """Return the log of a server that has ended."""
        return self.process.communicate()[1]

    def kill(self) -> None:
        """Kill it as a node kills a container: with all of its processes."""
        found = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        self.process.communicate()
        for child in found:
            if child.is_running():
                child.kill()


def start_server(requirements: Path, work: Path, cache: Path) -> Server:
    """Start a server on the folder of a node; `work` is its own."""
    work.mkdir(exist_ok=True)
    command = (sys.executable, "-m", __name__, str(requirements), str(work), str(cache))
    environment = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "NO_PROXY": "127.0.0.1"}
    return Server(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment))


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    requirements, work, cache = map(Path, sys.argv[1:])
    try:
        print(asyncio.run(Installer(PackageCache(cache)).install(requirements, work, model="m")))
    except ModelFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
