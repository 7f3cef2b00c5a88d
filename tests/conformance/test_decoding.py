"""`decode_input_request=false`: handlers get bodies of JSON as bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.case import JSON, predictions
from tests.support.model_folder import manifest, write_mar
from tests.support.runtimes import OURS, TORCHSERVE, Runtime

HANDLER = b"""
def handle(data, context):
    return [repr(row["body"]) for row in data] if data else None
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [TORCHSERVE, *OURS])
def test_json_reaches_the_handler_as_bytes(tmp_path: Path, kind: str) -> None:
    write_mar(tmp_path / "model-store/m.mar", manifest(modelName="m", handler="h.py"), {"h.py": HANDLER})
    (tmp_path / "config").mkdir()
    lines = ("load_models=all", "default_workers_per_model=1", "decode_input_request=false", "")
    (tmp_path / "config/config.properties").write_text("\n".join(lines))

    with Runtime(kind, tmp_path) as runtime:
        runtime.wait_ready(["m"])
        answer = runtime.send(predictions("m", b'{"a": 1}', JSON))

    assert (answer.status, answer.body) == (200, b"""bytearray(b'{"a": 1}')""")
