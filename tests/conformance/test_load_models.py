"""`load_models` names an archive that the store does not hold: the others are served."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.case import predictions
from tests.support.model_folder import manifest, write_mar
from tests.support.runtimes import OURS, TORCHSERVE, Runtime

HANDLER = b"""
def handle(data, context):
    return ["served" for _ in data] if data else None
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [TORCHSERVE, *OURS])
def test_a_missing_archive_is_named_and_the_others_are_served(tmp_path: Path, kind: str) -> None:
    write_mar(tmp_path / "model-store/m.mar", manifest(modelName="m", handler="h.py"), {"h.py": HANDLER})
    (tmp_path / "config").mkdir()
    lines = ("load_models=gone=gone.mar,m.mar", "default_workers_per_model=1", "")
    (tmp_path / "config/config.properties").write_text("\n".join(lines))

    with Runtime(kind, tmp_path) as runtime:
        runtime.wait_ready(["m"])
        served, gone = (runtime.send(predictions(model)) for model in ("m", "gone"))
        is_healthy = runtime.get("/ping").document
        ready = [runtime.get(f"/v1/models/{model}").status for model in ("m", "gone")]
        is_named = "gone.mar" in runtime.log

    assert (served.status, served.body, is_healthy, is_named) == (200, b"served", {"status": "Healthy"}, True)
    assert gone.status == (404 if kind == TORCHSERVE else 503)
    if kind in OURS:
        reason = gone.document["error"]
        assert "gone is not ready: it is not served: gone.mar, which load_models names, is not in" in reason
        assert ready == [200, 503]
