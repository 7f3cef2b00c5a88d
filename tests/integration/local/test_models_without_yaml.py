"""``isvc run MODEL``: a model of each kind in, and the printed commands get answers."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from model_archive.packing import ArchiveTarget, Sources, pack
from tests.support import torch_models
from tests.support.isvc_process import Sandbox, new_sandbox, read_until, stop

pytestmark = [pytest.mark.timeout(300)]

HANDLER = """\
import json
from pathlib import Path


class Handler:
    def initialize(self, context):
        self.words = json.loads(Path(context.system_properties["model_dir"], "words.json").read_text())

    def handle(self, data, context):
        return [self.words[row] for row in data]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch  # after torch_models, which keeps its warnings quiet

    folder = tmp_path_factory.mktemp("models")
    torch_models.save_traced(folder / "traced.pt", torch_models.Affine(), torch.zeros(1, 3))
    torch_models.save_scripted(folder / "scripted.pt", torch_models.Gathering())
    torch_models.save_exported(folder / "exported.pt2", torch_models.Affine(), torch.zeros(2, 3))
    torch_models.save_onnx(folder / "tiny.onnx", torch_models.Affine(), torch.zeros(1, 3))
    weights = torch_models.save_scripted(folder / "shades.pt", torch_models.Shades())
    pack(Sources(model_name="shades", handler="image_classifier", serialized_file=weights), ArchiveTarget(folder))
    words = folder / "words"
    words.mkdir()
    (words / "handler.py").write_text(HANDLER)
    (words / "words.json").write_text('["zero", "one"]')
    (words / "sample.json").write_text('{"instances": [1]}')
    return folder


MODELS = ("traced.pt", "scripted.pt", "exported.pt2", "tiny.onnx", "shades.mar", "words")


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[tuple[Sandbox, str]]:
    """All models in one run, and what was announced."""
    with new_sandbox(folder) as sandbox:
        paths = [folder / name for name in MODELS]
        with sandbox.running(*paths, "--save", folder / "saved.yaml") as process:
            yield sandbox, read_until(process.stdout, "Ctrl-C stops it.")
            stop(process)


def commands(announced: str) -> dict[str, str]:
    """Service → the command that is printed for it."""
    return dict(re.findall(r"^(\S+) is served$.*?^  (curl .*?)$", announced, re.MULTILINE | re.DOTALL))


def answer(command: str) -> Any:
    done = subprocess.run(["bash", "-c", f"{command} --fail-with-body -sS"], capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return yaml.safe_load(done.stdout)


@pytest.mark.parametrize("name", ["traced", "exported", "tiny"])
def test_a_model_that_says_what_it_takes_gets_zeros(running: tuple[Sandbox, str], name: str) -> None:
    (output,) = answer(commands(running[1])[name])["outputs"]

    assert output["data"] == [1.0, 1.0, 1.0]


def test_torchserves_image_classifier_gets_a_picture(running: tuple[Sandbox, str]) -> None:
    (classes,) = answer(commands(running[1])["shades"])["predictions"]

    assert len(classes) == 5
    guess = "(shades may take another picture or text: this is a guess, from what its handler is)"
    assert [line.strip() for line in running[1].splitlines() if "guess" in line] == [guess]


def test_a_handler_gets_the_sample_beside_it(running: tuple[Sandbox, str]) -> None:
    assert answer(commands(running[1])["words"]) == {"predictions": ["one"]}


def test_of_a_model_that_says_nothing_a_request_is_asked(running: tuple[Sandbox, str]) -> None:
    url = f"http://127.0.0.1:{running[0].port}/default/scripted/v1/models/scripted:predict"

    assert (
        f"  curl -X POST {url} -T FILE\n"
        "  (scripted takes ids and weights, and does not say what they hold; write a request into FILE: "
        '{"instances": [{"ids": ..., "weights": ...}]})\n'
    ) in running[1]


def test_the_yaml_that_was_made_is_saved(running: tuple[Sandbox, str], folder: Path) -> None:
    saved = (folder / "saved.yaml").read_text()

    assert saved.startswith("# storageUri is a path of this machine. ")
    assert [item["spec"]["predictor"]["model"] for item in yaml.safe_load_all(saved)] == [
        {
            "modelFormat": {"name": "onnx" if name == "tiny.onnx" else "pytorch"},
            "storageUri": f"file://{folder / name}",
        }
        for name in MODELS
    ]
    assert running[0].run(folder / "traced.pt", "--save", folder / "saved.yaml").stderr == (
        f"isvc: --save {folder / 'saved.yaml'}: the file exists already; name another one\n"
    )
