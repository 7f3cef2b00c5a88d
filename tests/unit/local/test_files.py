"""Files that commands read: those that have no end, and those that are too large."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from isvc.commands import main
from isvc.limits import FILE_BYTES

Captured = pytest.CaptureFixture[str]
LINE = f"has more than {FILE_BYTES} bytes; use a smaller one\n"


@pytest.mark.parametrize("command", ["validate", "render", "run", "diff"])
def test_a_file_without_an_end_is_not_kept(command: str, capsys: Captured) -> None:
    assert main([command, "/dev/zero"]) == 2

    assert capsys.readouterr().err == f"isvc: /dev/zero {LINE}"


def test_the_standard_input_is_bounded_too(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    endless = io.TextIOWrapper(io.BytesIO(b"#" * (FILE_BYTES + 1)))
    monkeypatch.setattr(sys, "stdin", endless)

    assert main(["validate", "-"]) == 2

    assert capsys.readouterr().err == f"isvc: standard input {LINE}"


def test_a_file_in_place_of_the_configurations_folder_is_named(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "ingress").write_text("{}")

    assert main(["validate", str(tmp_path / "ingress"), "--config-dir", str(tmp_path / "ingress")]) == 2

    assert f"configuration folder {tmp_path / 'ingress'} is not a folder" in capsys.readouterr().err
