"""Build the files of a release from a folder of sources. The same sources and time give the same bytes."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Final

from hack.release.charts import write_charts
from hack.release.folders import pack
from hack.release.version import current_version

# The folders with a pyproject.toml.
DISTRIBUTIONS: Final = ("runtime-images/common/src/data_plane", "transformer_sdk", ".")
# What manifests name, and what users build on.
IMAGES: Final = ("operator", "dashboard", "storage-initializer", "mar", "onnx", "torchserve", "transformer")


class BuildFailed(Exception):
    """A program that makes a part of the release failed; the message has its output."""


def build(source: Path, dist: Path, released: datetime, environment: Mapping[str, str]) -> None:
    """Write the release to the empty folder `dist`.

    REGISTRY and TAG of the environment name the images, REPOSITORY the URL to whose files and releases the site links.
    """
    environment = _at(released, environment)
    for distribution in DISTRIBUTIONS:
        _run([sys.executable, "-m", "hatchling", "build", "--directory", str(dist)], source / distribution, environment)
    write_manifests(source, dist, environment)
    write_charts(source, dist, released, environment)
    write_site(source, dist, released, environment)
    pins = (source / "constraints.txt").read_text()
    (dist / "constraints.txt").write_text(pins)
    # pip, and so pipx, would ask for a hash of the wheel itself, too.
    (dist / "constraints-without-hashes.txt").write_text(re.sub(r" \\\n +--hash=\S+", "", pins))
    write_bill_of_materials(source, dist, environment)
    _write_checksums(dist)


def build_images(source: Path, dist: Path, released: datetime, environment: Mapping[str, str]) -> None:
    """Add the images to a release, as OCI archives."""
    # torch's is what two of them are built on; their archives hold its layer.
    command = ["bash", "hack/release/images", str(dist), "torch", *IMAGES]
    if subprocess.run(command, cwd=source, env=_at(released, environment), check=False).returncode:
        raise BuildFailed("the images could not be built")
    _write_checksums(dist)


def _at(released: datetime, environment: Mapping[str, str]) -> Mapping[str, str]:
    return {**environment, "SOURCE_DATE_EPOCH": str(int(released.timestamp()))}


def write_manifests(source: Path, dist: Path, environment: Mapping[str, str]) -> None:
    for name, files in (
        ("install-crds.yaml", "crds/*.yaml"),
        ("runtimes-kserve.yaml", "manifests/runtimes-kserve/*-*.yaml"),
    ):
        (dist / name).write_text("---\n".join(path.read_text() for path in sorted(source.glob(files))))
    for overlay in sorted((source / "manifests" / "overlays").iterdir()):
        name = "install.yaml" if overlay.name == "default" else f"install-{overlay.name}.yaml"
        (dist / name).write_text(_run(["bash", "tests/cluster/render", overlay.name], source, environment))
    (dist / "dashboard.yaml").write_text(_run(["bash", "tests/cluster/render", "dashboard"], source, environment))
    images = (f"{environment['REGISTRY']}/{name}:{environment['TAG']}\n" for name in IMAGES)
    (dist / "images.txt").write_text("".join(images))


def write_site(source: Path, dist: Path, released: datetime, environment: Mapping[str, str]) -> None:
    """Write the documentation as a site; a link that leads nowhere fails it."""
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder, "docs")
        sphinx = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", "-d", f"{folder}/doctrees"]
        _run([*sphinx, ".", str(site)], source, environment)
        (site / ".buildinfo").unlink()
        pack(site, dist / f"isvc-operator-docs-{current_version(source)}.tar.gz", released)


def write_bill_of_materials(source: Path, dist: Path, environment: Mapping[str, str]) -> None:
    """Write what the wheels of `dist` and all their extras install on this platform, as CycloneDX JSON."""
    with tempfile.TemporaryDirectory() as folder:
        _write_metadata(source, Path(folder), environment)
        path = ":".join([folder, *map(str, sorted(dist.glob("*.whl")))])
        # To validate its own output takes the tool 16 s.
        options = ["--output-reproducible", "--no-validate", "--pyproject", "pyproject.toml", "-S", sys.executable]
        command = [sys.executable, "-m", "cyclonedx_py", "environment", *options]
        bill = _run(command, source, {**environment, "PYTHONPATH": path})
    (dist / "sbom.cdx.json").write_text(bill)


def _write_metadata(source: Path, folder: Path, environment: Mapping[str, str]) -> None:
    """Write an environment of all that the extras name, with the metadata alone: the packages take gigabytes.

    Of a package that `make setup` leaves out, it has the name and the version alone.
    """
    projects = [f"{distribution}/pyproject.toml" for distribution in DISTRIBUTIONS]
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "compile", "--quiet", "--no-annotate", "--no-header"]
    chosen = ["--all-extras", "--excludes", "first-party.txt", "--constraint", "constraints.txt"]
    for package in _run([*uv, *chosen, *projects], source, environment).split():
        name, _, version = package.partition("==")
        place = folder / f"{name}-{version}.dist-info"
        place.mkdir()
        known = next(iter(metadata.distributions(name=name)), None)
        least = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (place / "METADATA").write_text((known and known.read_text("METADATA")) or least)


def _write_checksums(dist: Path) -> None:
    """Write the file that `sha256sum --check` reads."""
    sums = dist / "SHA256SUMS"
    lines = [f"{_sha256(path)}  {path.name}\n" for path in sorted(dist.iterdir()) if path != sums]
    sums.write_text("".join(lines))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildFailed(f"{' '.join(command)} failed in {folder}:\n{done.stdout}{done.stderr}")
    return done.stdout
