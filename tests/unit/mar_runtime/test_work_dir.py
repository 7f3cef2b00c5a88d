"""The work directory is made, claimed by one server at a time, and named where that does not work."""

from __future__ import annotations

from pathlib import Path

import pytest

from mar_runtime.work_dir import claimed
from transformer_sdk.model_store.errors import StartError


def test_a_folder_is_made_and_free_again_afterwards(tmp_path: Path) -> None:
    for _ in range(2):
        with claimed(tmp_path / "a/b"):
            assert (tmp_path / "a/b").is_dir()


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    with (
        claimed(tmp_path),
        pytest.raises(StartError, match="is in use by another server; choose another by --work-dir"),
        claimed(tmp_path),
    ):
        pass


def test_a_path_that_can_be_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with (
        pytest.raises(StartError, match=r"cannot be written to: .*; choose another by --work-dir"),
        claimed(tmp_path / "file/folder"),
    ):
        pass
