"""The YAML in an archive, whatever kind of archive it is."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from data_plane.model_server.errors import ConfigurationError
from tests.support.model_folder import manifest, write_mar
from torchserve_adapter.archive_settings import read_settings

YAML = b"batchSize: 8\nhandler:\n  names: [a, b]\n"
SETTINGS = {"batchSize": 8, "handler": {"names": ["a", "b"]}}


def mar(folder: Path, yaml: bytes, config_file: str | None = "model-config.yaml") -> Path:
    return write_mar(folder / "a.mar", manifest(configFile=config_file), {"model-config.yaml": yaml})


def test_a_mars_settings_are_read(tmp_path: Path) -> None:
    assert read_settings(mar(tmp_path, YAML)) == SETTINGS


def test_a_tar_gzs_settings_are_read(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    files = {"MAR-INF/MANIFEST.json": json.dumps(manifest(configFile="c.yaml")).encode(), "c.yaml": YAML}
    with tarfile.open(archive, "w:gz") as members:
        for name, content in files.items():
            member = tarfile.TarInfo(f"a/{name}")
            member.size = len(content)
            members.addfile(member, io.BytesIO(content))

    assert read_settings(archive) == SETTINGS


def test_a_folders_settings_are_read(tmp_path: Path) -> None:
    (tmp_path / "MAR-INF").mkdir()
    (tmp_path / "MAR-INF" / "MANIFEST.json").write_text(json.dumps(manifest(configFile="c.yaml")))
    (tmp_path / "c.yaml").write_bytes(YAML)

    assert read_settings(tmp_path) == SETTINGS


@pytest.mark.parametrize(
    ("yaml", "config_file"),
    [
        (YAML, None),
        (YAML, "other.yaml"),
        (b"a: [", "model-config.yaml"),
    ],
    ids=["names no file", "file is not there", "no YAML"],
)
def test_where_there_are_none_there_are_none(tmp_path: Path, yaml: bytes, config_file: str | None) -> None:
    assert read_settings(mar(tmp_path, yaml, config_file)) == {}


@pytest.mark.parametrize("yaml", [b"", b"- 1", b"words", b"~"])
def test_a_file_for_which_torchserve_ends_is_named(tmp_path: Path, yaml: bytes) -> None:
    with pytest.raises(ConfigurationError, match=r"^a.mar: its model-config.yaml has no settings; write NAME"):
        read_settings(mar(tmp_path, yaml))


def test_a_truncated_archive_has_none(tmp_path: Path) -> None:
    archive = mar(tmp_path, YAML)
    archive.write_bytes(archive.read_bytes()[:60])

    assert read_settings(archive) == {}
