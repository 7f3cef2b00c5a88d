"""What lies in the working folder is not run: people look into a stranger's model from where they have unpacked it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from isvc.commands import main
from tests.support.isvc_process import new_sandbox
from tests.support.local_services import FAKE_RUNTIME, runtime, service, write_yaml
from tests.support.model_folder import manifest, write_files, write_mar, write_volume

pytestmark = pytest.mark.process

# Of the standard library, of packages, and of ours: what our programs import, or are.
NAMES = (
    *("asyncio", "functools", "json", "pathlib", "re", "typing", "zipfile"),
    *("aiohttp", "javaproperties", "msgspec", "pip", "uvicorn"),
    *(
        "data_plane",
        "isvc",
        "isvc_operator",
        "mar_runtime",
        "model_archive",
        "storage_initializer",
        "torchserve_adapter",
    ),
)
TRAP = b"import os\nopen(os.environ['TRAPPED'], 'a').write(__file__ + '\\n')\n"
TORCHLESS = Path(__file__).parents[1] / "support/torchless"
SERVICE = {
    "apiVersion": "serving.kserve.io/v1beta1",
    "kind": "InferenceService",
    "metadata": {"name": "stranger"},
    "spec": {"predictor": {"model": {"modelFormat": {"name": "pytorch"}, "storageUri": "pvc://models"}}},
}


@pytest.fixture
def trapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that names what was run of the working folder."""
    write_files(tmp_path / "downloaded", {f"{name}.py": TRAP for name in NAMES})
    monkeypatch.chdir(tmp_path / "downloaded")
    monkeypatch.setenv("TRAPPED", str(tmp_path / "trapped"))
    (tmp_path / "trapped").touch()
    return tmp_path / "trapped"


def test_to_inspect_a_strangers_folder_runs_nothing_of_it(trapped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_volume(Path(), "model_store=model-store\nload_models=bert-model.mar\n")

    assert main(["inspect", "."]) == 0

    assert "bert-model" in capsys.readouterr().out
    assert trapped.read_text() == ""


def test_to_serve_it_runs_its_handler_and_nothing_beside_the_archive(
    trapped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker is started again for an archive with a module that has the name of an imported one."""
    monkeypatch.setenv("PYTHONPATH", str(TORCHLESS))
    handler = {"handler.py": b"def handle(data, context): return [1] * len(data or [])\n", "textwrap.py": b""}
    write_mar(Path("models/model-store/m.mar"), manifest(modelName="m"), handler)
    write_files(Path("models"), {"config/config.properties": b"model_store=model-store\nload_models=m.mar\n"})
    write_files(Path(), {"request.json": json.dumps({"instances": [1]}).encode()})
    with new_sandbox(tmp_path) as sandbox:
        file = write_yaml(Path("service.yaml"), SERVICE)
        done = sandbox.run(file, "--pvc", "models=models", "--request", "request.json")

    assert (done.returncode, done.stdout.strip()) == (0, '{"predictions":[1]}'), done.stderr
    assert trapped.read_text() == ""


def test_a_package_of_the_users_own_runs_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = f"import runpy\nrunpy.run_path({os.fspath(FAKE_RUNTIME)!r}, run_name='__main__')\n"
    files = {"mine/__main__.py": server.encode(), "models/weights": b"12345", "request.json": b'{"instances": [1]}'}
    write_files(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    with new_sandbox(tmp_path) as sandbox:
        file = write_yaml(Path("service.yaml"), service(), runtime(command=["python", "-m", "mine"]))
        done = sandbox.run(file, "--pvc", "models=models", "--request", "request.json")

    assert done.returncode == 0, done.stderr
