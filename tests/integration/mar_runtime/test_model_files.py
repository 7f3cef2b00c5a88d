"""A directory with a model file and nothing else, read-only, served by a user without a name and a home."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.runtimes import Request, Runtime
from tests.support.torch_models import Affine, save_exported, save_scripted

# A user namespace: whoever runs the tests is another in it, with no rights but those of the files' modes.
AS_NOBODY_KNOWN = """
import os, sys
uid = ["--map-user=12345", "--map-group=12345"]
os.execvp("unshare", ["unshare", "--user", *uid, sys.executable, *sys.argv[1:]])
"""


class NamelessRuntime(Runtime):
    """Runs as a user id that no user has."""

    def _command(self) -> list[str]:
        return ["-c", AS_NOBODY_KNOWN, *super()._command()]


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder = tmp_path_factory.mktemp("files") / "models"
    folder.mkdir()
    save_scripted(folder / "model.pt", Affine())
    folder.chmod(0o555)
    with NamelessRuntime("mar", folder, "--service-name", "affine", HOME="/nonexistent") as running:
        yield running.wait_ready(["affine"])
    folder.chmod(0o755)


def infer(runtime: Runtime, datatype: str, rows: Sequence[Sequence[float]]) -> tuple[int, object]:
    shape = [len(rows), len(rows[0])]
    data = {"inputs": [{"name": "rows", "datatype": datatype, "shape": shape, "data": rows}]}
    answer = runtime.send(Request("POST", "/v2/models/affine/infer", json.dumps(data).encode()))
    return answer.status, answer.document


def test_v1(runtime: Runtime) -> None:
    assert runtime.predict("affine", {"instances": [[1, 2, 3], [4, 5, 6]]}).document == {
        "predictions": [[3, 5, 7], [9, 11, 13]]
    }


def test_v2(runtime: Runtime) -> None:
    status, document = infer(runtime, "FP32", [[1, 2, 3]])

    assert isinstance(document, dict)
    assert (status, document["model_name"], document["outputs"]) == (
        200, "affine", [{"name": "output-0", "datatype": "FP32", "shape": [1, 3], "data": [3, 5, 7]}],
    )  # fmt: skip


def test_nothing_is_written_into_the_model_directory(runtime: Runtime) -> None:
    assert [path.name for path in runtime._model_dir.iterdir()] == ["model.pt"]


def test_the_libraries_of_a_model_print_nothing_of_themselves(tmp_path: Path) -> None:
    """Neither when they are imported nor when Python ends."""
    import torch  # after torch_models, which keeps its warnings quiet

    models = tmp_path / "models"
    models.mkdir()
    save_exported(models / "model.pt2", Affine(), torch.zeros(2, 3))
    with Runtime("mar", models, "--service-name", "affine") as running:
        running.wait_ready(["affine"])
        running.process.terminate()
        running.wait_exit()
        lines = running.log.splitlines()

    assert [line for line in lines if not re.match(r"\d{4}-\d\d-\d\d ", line)] == []
