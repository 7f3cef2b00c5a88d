"""What TorchServe's workers log of a handler that cannot be loaded."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path

import pytest

from model_archive.manifest import MANIFEST
from tests.support.model_folder import manifest, write_files
from torchserve_adapter import worker
from torchserve_compat.worker.loading import HandlerLoader

HANDLER = "import os\nimport not_there_at_all\n"
LOGGED = """Backend worker process died.
    Traceback (most recent call last):
      File "lacking.py", line 2, in <module>
        import not_there_at_all
    ModuleNotFoundError: No module named 'not_there_at_all'
"""


def test_a_traceback_begins_at_the_handlers_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    monkeypatch.setattr(logging.getLogger(), "handlers", [logging.StreamHandler(log)])
    monkeypatch.setattr(worker, "_HOME", tmp_path / "home")
    monkeypatch.syspath_prepend(tmp_path / "model")
    content = json.dumps(manifest(modelName="m", handler="lacking.py")).encode()
    write_files(tmp_path, {"batch-sizes.json": b"{}"})
    write_files(tmp_path / "model", {MANIFEST: content, "lacking.py": HANDLER.encode()})

    try:
        worker.Loader(HandlerLoader(lambda _: None)).load("m", str(tmp_path / "model"), "lacking.py", None, 1)
    except ModuleNotFoundError:
        logging.exception("Backend worker process died.")  # as TorchServe does

    assert log.getvalue() == LOGGED
