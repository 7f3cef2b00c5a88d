"""The Helm charts of a release: the folders of manifests/charts with all that they link to, each as one archive.

`helm package` writes the time of its run into the archive. These have the release's, so that two builds are the same.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from hack.release.folders import pack
from hack.release.version import current_version

_NOT_PACKED = shutil.ignore_patterns("README.md", "kustomization.yaml")


def write_charts(source: Path, dist: Path, released: datetime, environment: Mapping[str, str]) -> None:
    """Write an archive for each chart; REGISTRY and TAG of the environment name the images of its default values."""
    for chart in sorted((source / "manifests" / "charts").iterdir()):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, chart.name)
            shutil.copytree(chart, copy, ignore=_NOT_PACKED)
            _name_images(copy, environment["REGISTRY"], environment["TAG"])
            pack(copy, dist / f"{chart.name}-{current_version(source)}.tgz", released)


def _name_images(chart: Path, registry: str, tag: str) -> None:
    for name, field, value in (("values.yaml", "  registry", registry), ("Chart.yaml", "appVersion", f'"{tag}"')):
        text = (chart / name).read_text()
        (chart / name).write_text(re.sub(f"^{field}: .*$", f"{field}: {value}", text, flags=re.MULTILINE))
