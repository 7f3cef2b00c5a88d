"""`isvc new`: what it writes, and what it refuses. That all of it runs is shown in
tests/integration/kserve_sdk and tests/integration/cli/test_docs.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from isvc.commands import main
from tests.support.model_folder import read_tree

Captured = pytest.CaptureFixture[str]
FILES = {
    "transformer": {
        "Dockerfile", "README.md", "inferenceservice.yaml", "model.py", "pytest.ini", "requirements.txt",
        "test_model.py",
    },
    "model": {
        "README.md", "inferenceservice.yaml", "my-digits/handler.py", "my-digits/model.py", "pytest.ini", "sample.json",
        "test_handler.py", "train.py",
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_a_project_is_written_with_its_name_in_every_place(kind: str, tmp_path: Path, capsys: Captured) -> None:
    assert main(["new", kind, "my-digits", "--into", str(tmp_path)]) == 0

    written = {name: content.decode() for name, content in read_tree(tmp_path / "my-digits").items()}
    assert set(written) == FILES[kind]
    assert "{{" not in "".join(written.values())
    assert "  name: my-digits\n" in written["inferenceservice.yaml"]
    assert capsys.readouterr().out == f"wrote {tmp_path}/my-digits: see {tmp_path}/my-digits/README.md\n"


@pytest.mark.parametrize("name", ["Digits", "1st", "a_b", "-a", "a-", "x" * 54, "../a"])
def test_a_name_that_no_service_can_have_is_refused(name: str, tmp_path: Path, capsys: Captured) -> None:
    assert main(["new", "transformer", "--into", str(tmp_path), "--", name]) == 2

    assert "cannot be a service's name" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "digits").mkdir()

    assert main(["new", "transformer", "digits", "--into", str(tmp_path)]) == 2

    assert "exists already" in capsys.readouterr().err
    assert list((tmp_path / "digits").iterdir()) == []
