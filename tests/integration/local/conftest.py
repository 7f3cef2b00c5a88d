"""A place to run ``isvc`` in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.isvc_process import Sandbox, new_sandbox


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """Holds a folder for the claim ``models``, and a request."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models/weights").write_text("1 2 3")
    (tmp_path / "request.json").write_text('{"instances": [1, 2]}')
    with new_sandbox(tmp_path) as sandbox:
        yield sandbox
