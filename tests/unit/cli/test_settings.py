"""What `isvc run` says of the config.properties of the models that it serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from isvc.commands.files import FileFlags, check_files
from isvc.commands.settings import unread

USUAL = "management_address=http://0.0.0.0:8085\nmetrics_address=http://0.0.0.0:8086\njob_queue_size=10\n"
SERVICE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: m}
spec: {predictor: {model: {modelFormat: {name: pytorch}, runtime: %s, storageUri: "%s"}}}
"""


def said(folder: Path, uri: str, runtime: str = "isvc-mar") -> list[str]:
    (folder / "m.yaml").write_text(SERVICE % (runtime, uri))
    return list(unread(check_files([folder / "m.yaml"], FileFlags()).usable, {"claim": folder}))


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A folder of a claim, with a model store in a folder of it."""
    (tmp_path / "v/config").mkdir(parents=True)
    (tmp_path / "v/config/config.properties").write_text(USUAL)
    return tmp_path


@pytest.mark.parametrize("uri", ["pvc://claim/v", "file://{volume}/v"])
def test_usual_settings_without_effect_are_told_in_one_line(volume: Path, uri: str) -> None:
    assert said(volume, uri.format(volume=volume)) == [
        f"{volume}/v/config/config.properties: management_address, metrics_address (isvc-mar does not use them; "
        f"to see why: isvc inspect {volume}/v)"
    ]


@pytest.mark.parametrize(
    ("uri", "runtime"),
    [("pvc://claim/v", "kserve-torchserve"), ("pvc://other/v", "isvc-mar"), ("s3://bucket/v", "isvc-mar")],
)
def test_what_is_used_or_not_here_is_not_told(volume: Path, uri: str, runtime: str) -> None:
    assert said(volume, uri, runtime) == []


def test_the_settings_beside_a_handler_are_told(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v/handler.py").touch()
    (tmp_path / "v/config.properties").write_text(USUAL)

    (line,) = said(tmp_path, f"file://{tmp_path}/v")

    assert line.startswith(f"{tmp_path}/v/config.properties: management_address, metrics_address (")
