"""Handlers that may well be loaded are not judged."""

from __future__ import annotations

import ast
import tracemalloc
from pathlib import Path

import pytest

from model_archive.handlers import entry_problem, leaves_weights, model_file_problem, script_problem, weights_problem
from model_archive.manifest import Manifest
from tests.support.model_folder import packed_zip

CLASS = "class A:\n    def initialize(self, context): ...\n    def handle(self, data, context): ...\n"


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        ("h.py", CLASS),
        ("h", "async def handle(data, context): ..."),
        ("h.py:misspelt", CLASS),  # TorchServe takes the class then
        ("h.py:run", "from others import run"),
        ("h.py:run", "run = make()"),
        ("h.py:A", f"{CLASS}A = A().handle"),
        ("h.py:run", "globals()['run'] = print"),
        ("h.py:run", "from others import *"),
        ("h.py:run", "try:\n    from a import run\nexcept ImportError:\n    from b import run"),
        ("h.py", "if True:\n    class A(X): ...\nelse:\n    class B(X): ..."),
        ("h.py", f"{CLASS}class B: ...\ndel B"),
        ("h.py", "class A(Base): ..."),
        ("h.py", "@made\nclass A: ..."),
        ("h.py", ""),
        ("h.py:run", "Row = namedtuple('Row', 'a')"),
    ],
)
def test_what_may_be_loaded_is_no_problem(handler: str, text: str) -> None:
    assert entry_problem(handler, ast.parse(text)) is None


@pytest.mark.parametrize(
    ("text", "leaves"),
    [
        ("class A(BaseHandler): ...", True),
        ("class A(ImageClassifier):\n    def preprocess(self, data): ...", True),
        ("class A(BaseHandler):\n    def initialize(self, context): ...", False),
        ("class A(BaseHandler):\n    def inference(self, data): ...", False),
        ("class A(BaseHandler):\n    def _load_torchscript_model(self, path): ...", False),
        ("class A(Mine): ...", False),
        ("class A(BaseHandler): ...\ndef handle(data, context): ...", False),
        (CLASS, False),
    ],
)
def test_only_a_class_without_a_way_of_its_own_leaves_its_weights_to_base_handler(text: str, leaves: bool) -> None:
    theirs, ours = (
        "from ts.torch_handler.base_handler import BaseHandler, ImageClassifier",
        "from mine import BaseHandler",
    )

    assert leaves_weights(Manifest("m", "1.0", "h.py"), ast.parse(f"{theirs}\n{text}")) is leaves
    assert not leaves_weights(Manifest("m", "1.0", "h.py"), ast.parse(f"{ours}\n{text}"))


@pytest.mark.parametrize(
    ("weights", "settings"), [("net.pt", None), ("net.so", "c.yaml"), ("net.pth", None), ("net.onnx", None), ("", None)]
)
@pytest.mark.parametrize("model_file", [None, "model.py"])
def test_weights_that_base_handler_may_load_are_no_problem(
    tmp_path: Path, weights: str, settings: str | None, model_file: str | None
) -> None:
    manifest = Manifest("m", "1.0", "base_handler", None, settings, model_file, weights or None)
    (tmp_path / (weights or "net")).write_bytes(packed_zip({"net/constants.pkl": b""}))

    problem = weights_problem(manifest) or script_problem(manifest, tmp_path / weights)

    assert bool(problem) == (weights in ("net.pth", "net.onnx") and model_file is None)


def test_weights_are_not_read_to_tell_whether_they_are_torchscript(tmp_path: Path) -> None:
    weights, size = tmp_path / "net.pt", 64 << 20
    weights.write_bytes(packed_zip({"net/data/0": bytes(size)}))
    tracemalloc.start()

    problem = script_problem(Manifest("m", "1.0", "base_handler", serialized_file="net.pt"), weights)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert problem
    assert peak < size / 10


@pytest.mark.parametrize(
    ("text", "has_problem"),
    [
        ("class Net(Module): ...", False),
        ("class Block(Module): ...\nclass Net(Module): ...", True),
        ("from torchvision.models import ResNet", True),
        ("from mine import *", False),
        ("Net = make('Net')", False),
        ("if cuda:\n    class Net(A): ...\nelse:\n    class Other(B): ...", False),
    ],
)
def test_a_model_file_has_one_class(text: str, has_problem: bool) -> None:
    assert bool(model_file_problem("model.py", ast.parse(text))) == has_problem
