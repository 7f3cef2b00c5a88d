from __future__ import annotations

import json
import tarfile
from pathlib import Path

from hack.release.site import add


def archive(folder: Path, text: str) -> Path:
    page = folder / "README.html"
    page.write_text(text)
    with tarfile.open(folder / "docs.tar.gz", "w:gz") as opened:
        opened.add(page, "docs/README.html")
    return folder / "docs.tar.gz"


def test_the_newest_version_is_the_one_that_opens(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()

    for version in ("0.9.0", "0.10.0", "0.11.0rc1", "0.2.0"):
        add(archive(tmp_path, version), version, site)

    assert json.loads((site / "versions.json").read_text()) == ["0.11.0rc1", "0.10.0", "0.9.0", "0.2.0"]
    assert "url=0.10.0/README.html" in (site / "index.html").read_text()
    assert (site / "0.9.0/README.html").read_text() == "0.9.0"


def test_a_version_is_published_again(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    add(archive(tmp_path, "first"), "0.2.0", site)

    add(archive(tmp_path, "second"), "0.2.0", site)

    assert (site / "0.2.0/README.html").read_text() == "second"
    assert json.loads((site / "versions.json").read_text()) == ["0.2.0"]
